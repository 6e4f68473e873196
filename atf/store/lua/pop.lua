-- pop: takes ids from queues; no task changes its state (an id that goes astray expires and is pushed again)
-- KEYS[1]  the partition's record
-- ARGV     now, ids wanted, the pool that asks ("" = of no name), then per group of queues (most urgent first): how many, their names
-- RETURNS  queue, {ids}, queue, {ids}, ...; with no ids a queue that may hold some and had to stand back
--
-- A group is emptied before the next one is looked at; within a group the queues share evenly what is still wanted. What a lambda
-- gets by that is dealt among its priorities by their shares, so that those of the other groups have theirs.
-- Paused lambdas are passed over, and those that another pool runs. A queue that was full is visited again once a tenth of it is free. While no claims are given
-- (see note_server), nothing is taken.

local MAX_UNPACKED = 1000

local function all_empty(P, group)  -- mostly so: few calls instead of one per queue
  local lists = {}
  for i, queue in ipairs(group) do lists[i] = list_key(P, queue) end
  for first = 1, #lists, MAX_UNPACKED do
    if redis.call('EXISTS', unpack(lists, first, math.min(first + MAX_UNPACKED - 1, #lists))) > 0 then return false end
  end
  return true
end

-- Those of some queues that hold something for this pool; also added to their lambda's in `lambdas`.
local function filled(P, queues, pool, lambdas)
  local found = {}
  if all_empty(P, queues) then return found end
  for _, queue in ipairs(queues) do
    local length, name = redis.call('LLEN', list_key(P, queue)), lambda_of(queue)
    if length > 0 and given(P, name, pool) then
      local each = {queue = queue, wants = length, gets = 0}
      if not lambdas[name] then
        lambdas[name] = {}
        lambdas[#lambdas + 1] = name
      end
      table.insert(lambdas[name], each)
      found[#found + 1] = each
    end
  end
  return found
end

local function got(queues)
  local sum = 0
  for _, each in ipairs(queues or {}) do sum = sum + each.gets end
  return sum
end

local function share(found, wanted)
  local left = wanted
  while left > 0 do
    local hungry = {}
    for _, each in ipairs(found) do
      if each.gets < each.wants then hungry[#hungry + 1] = each end
    end
    if #hungry == 0 then break end
    local each_takes = math.max(math.floor(left / #hungry), 1)
    for _, each in ipairs(hungry) do
      local more = math.min(each_takes, each.wants - each.gets, left)
      each.gets = each.gets + more
      left = left - more
    end
  end
  return left
end

local function take(P, queue, count, left, now)
  if count == 0 then return {} end
  local ids = redis.call('LPOP', list_key(P, queue), count)
  if redis.call('HGET', queue_key(P, queue), 'full') then
    local limit = tonumber(redis.call('HGET', lambda_key(P, lambda_of(queue)), 'limit') or DEFAULT_QUEUE_LIMIT)
    if left * 10 <= limit * 9 then
      redis.call('HDEL', queue_key(P, queue), 'full')
      visit_by(P, queue, now)
    end
  end
  return ids
end

register('pop', {'allow-oom'}, function(keys, args)
  local P, now, wanted, pool = keys[1], instant(args[1]), tonumber(args[2]), args[3]
  local settled = redis.call('HGET', P, 'settled')
  if settled and now < tonumber(settled) then return {} end  -- they could not be claimed
  local answer, lambdas, behind, i = {}, {}, {}, 4
  while i <= #args do
    local group, size = {}, tonumber(args[i])
    for j = i + 1, i + size do
      local of = lambdas[lambda_of(args[j])]
      if wanted > 0 then
        group[#group + 1] = args[j]
      elseif of and got(of) > 0 then
        behind[#behind + 1] = args[j]
      else
        answer[#answer + 1], answer[#answer + 2] = args[j], {}
      end
    end
    i = i + size + 1
    wanted = share(filled(P, group, pool, lambdas), wanted)
  end
  filled(P, behind, pool, lambdas)
  for _, name in ipairs(lambdas) do
    local queues = lambdas[name]
    if #queues > 1 and got(queues) > 0 then deal(P, name, queues, got(queues), 'pops') end
    for _, each in ipairs(queues) do
      answer[#answer + 1] = each.queue
      answer[#answer + 1] = take(P, each.queue, each.gets, each.wants - each.gets, now)
    end
  end
  return answer
end)
