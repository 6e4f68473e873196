-- pop: takes ids from queues; no task changes its state (an id that goes astray expires and is pushed again)
-- KEYS[1]  the partition's record
-- ARGV     now, ids wanted, the pool that asks ("" = of no name), then per group of queues (most urgent first): how many, their names
-- RETURNS  queue, {ids}, queue, {ids}, ...
--
-- A group is emptied before the next one is looked at; within a group the queues share evenly what is still wanted.
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

local function filled(P, group, pool)
  local found = {}
  if all_empty(P, group) then return found end
  for _, queue in ipairs(group) do
    local length = redis.call('LLEN', list_key(P, queue))
    if length > 0 and given(P, lambda_of(queue), pool) then
      found[#found + 1] = {queue = queue, length = length, take = 0}
    end
  end
  return found
end

local function share(found, wanted)
  local left = wanted
  while left > 0 do
    local hungry = {}
    for _, each in ipairs(found) do
      if each.take < each.length then hungry[#hungry + 1] = each end
    end
    if #hungry == 0 then break end
    local each_takes = math.max(math.floor(left / #hungry), 1)
    for _, each in ipairs(hungry) do
      local more = math.min(each_takes, each.length - each.take, left)
      each.take = each.take + more
      left = left - more
    end
  end
  return left
end

register('pop', {'allow-oom'}, function(keys, args)
  local P, now, wanted = keys[1], instant(args[1]), tonumber(args[2])
  local settled = redis.call('HGET', P, 'settled')
  if settled and now < tonumber(settled) then return {} end  -- they could not be claimed
  local answer, i = {}, 4
  while i <= #args and wanted > 0 do
    local group, size = {}, tonumber(args[i])
    for j = i + 1, i + size do group[#group + 1] = args[j] end
    i = i + size + 1
    local found = filled(P, group, args[3])
    wanted = share(found, wanted)
    for _, each in ipairs(found) do
      if each.take > 0 then
        answer[#answer + 1] = each.queue
        answer[#answer + 1] = redis.call('LPOP', list_key(P, each.queue), each.take)
        if redis.call('HGET', queue_key(P, each.queue), 'full') then
          local limit = tonumber(redis.call('HGET', lambda_key(P, lambda_of(each.queue)), 'limit') or DEFAULT_QUEUE_LIMIT)
          if (each.length - each.take) * 10 <= limit * 9 then
            redis.call('HDEL', queue_key(P, each.queue), 'full')
            visit_by(P, each.queue, now)
          end
        end
      end
    end
  end
  return answer
end)
