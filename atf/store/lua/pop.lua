-- pop: takes ids from queues; no task changes its state (an id that goes astray expires and is pushed again)
-- KEYS[1]  the partition's record
-- ARGV     now, ids wanted, the pool that asks ("" = of no name), the host that asks ("" = of no name),
--          then per group of queues (most urgent first): how many, their names; no group = nothing is taken from queues, and the
--          answer names all that hold something, with no ids
-- RETURNS  queue, {ids}, queue, {ids}, ...; with no ids a queue that may hold some and had to stand back, or where some are left to
--          other hosts: of these alone there are any where fewer were found than were wanted. At the end, where some wait beside their
--          queues for executors of another signature: "?", {names of the sets in which they do}. And at last, where anything was found
--          that is not given now: "!", {}
--
-- A group is emptied before the next one is looked at; within a group the queues share evenly what is still wanted. What a lambda
-- gets by that is dealt among its priorities by their shares, so that those of the other groups have theirs.
-- Paused lambdas are passed over, and those that another pool runs. A queue that was full is visited again once a tenth of it is free. While no claims are given
-- (see note_server), nothing is taken.

local MAX_UNPACKED = 1000
local MAX_NAMED = 8192  -- queues that are looked into where all are to be named
local AT_ONCE_NAMED = 64
local MAX_DRAWN = 256  -- ids of lambdas with a placement that one pop looks at; behind them it takes what comes first

local function all_empty(P, queues, from, to)  -- mostly so: few calls instead of one per queue
  if from == to then return false end  -- its length says so itself
  local lists = {}
  for i = from, to do lists[#lists + 1] = list_key(P, queues[i]) end
  for first = 1, #lists, MAX_UNPACKED do
    if redis.call('EXISTS', unpack(lists, first, math.min(first + MAX_UNPACKED - 1, #lists))) > 0 then return false end
  end
  return true
end

-- Names the queues that hold something. Whatever stands in one has an instant in the due index, but for what is paused. Those that are
-- looked at soonest come first, so beyond MAX_NAMED each has its turn within an enqueue timeout.
local function name_filled(P, answer)
  local queues = redis.call('ZRANGE', P .. ':due', 0, MAX_NAMED - 1)
  for first = 1, #queues, AT_ONCE_NAMED do
    local last = math.min(first + AT_ONCE_NAMED - 1, #queues)
    if not all_empty(P, queues, first, last) then
      for i = first, last do
        if redis.call('LLEN', list_key(P, queues[i])) > 0 then answer[#answer + 1], answer[#answer + 2] = queues[i], NOTHING end
      end
    end
  end
end

-- Whether claims are given, which is asked where anything was found: most pops, of hosts that wait for work, find nothing.
local function may_give(P, look, now)
  if look.may == nil then
    local record = redis.call('HMGET', P, 'settled', 'calm')
    look.may = not record[1] or not pause_left(tonumber(record[1]), record[2], instant(now))
  end
  return look.may
end

-- Those of some queues, queues[from] to queues[to], that hold something for this pool; also added to their lambda's in `lambdas`.
local function filled(P, queues, from, to, args, lambdas, look)
  if from > to or all_empty(P, queues, from, to) then return NOTHING end
  local pool, host, found = args[3], args[4], NOTHING
  for i = from, to do
    local queue = queues[i]
    local length, name = redis.call('LLEN', list_key(P, queue)), lambda_of(queue)
    local ours, placed
    if length > 0 and may_give(P, look, args[1]) then ours, placed = given(P, name, pool) end
    if ours then
      local each = {queue = queue, length = length, wants = length, gets = 0}
      if (placed == 'sticky' or placed == 'spread') and host ~= '' and look.drawn < MAX_DRAWN then
        each.name, each.placement = name, placed
        each.wants = placement.draw(P, each, math.min(tonumber(args[2]) + 16, MAX_DRAWN - look.drawn), host, instant(args[1]))
        look.drawn = look.drawn + #each.tasks
      end
      if not lambdas[name] then
        lambdas[name] = {}
        lambdas[#lambdas + 1] = name
      end
      table.insert(lambdas[name], each)
      if #found == 0 then found = {} end
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
  if #found == 0 then return wanted end
  local left = wanted
  if #found == 1 then
    found[1].gets = math.min(found[1].wants, left)
    return left - found[1].gets
  end
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

local function take(P, each, hungry, args)
  local queue, count, left = each.queue, each.gets, each.length - each.gets
  local ids, leaves = NOTHING, false
  if each.tasks then
    ids, leaves = placement.take(P, each, args[4], instant(args[1]), hungry)
  elseif count > 0 then
    ids = redis.call('LPOP', list_key(P, queue), count)
  end
  if count == 0 then return ids, leaves end
  if redis.call('HGET', queue_key(P, queue), 'full') then
    local limit = tonumber(redis.call('HGET', lambda_key(P, lambda_of(queue)), 'limit') or DEFAULT_QUEUE_LIMIT)
    if left * 10 <= limit * 9 then
      redis.call('HDEL', queue_key(P, queue), 'full')
      visit_by(P, queue, instant(args[1]))
    end
  end
  return ids, leaves
end

register('pop', {'allow-oom'}, function(keys, args)
  local P, wanted = keys[1], tonumber(args[2])
  local answer, lambdas, behind, look, i = {}, {}, NOTHING, {drawn = 0, may = nil}, 5
  if #args < i then name_filled(P, answer) end
  while i <= #args do
    local first, last = i + 1, i + tonumber(args[i])
    if wanted > 0 then
      wanted = share(filled(P, args, first, last, args, lambdas, look), wanted)
    else
      for j = first, last do
        local of = lambdas[lambda_of(args[j])]
        if of and got(of) > 0 then
          if #behind == 0 then behind = {} end
          behind[#behind + 1] = args[j]
        else
          answer[#answer + 1], answer[#answer + 2] = args[j], NOTHING
        end
      end
    end
    i = last + 1
  end
  filled(P, behind, 1, #behind, args, lambdas, look)
  for _, name in ipairs(lambdas) do
    local queues = lambdas[name]
    if #queues > 1 and got(queues) > 0 then deal(P, name, queues, got(queues), 'pops') end
    for _, each in ipairs(queues) do
      local ids, leaves = take(P, each, wanted > 0, args)
      answer[#answer + 1], answer[#answer + 2] = each.queue, ids
      if leaves and #ids > 0 then answer[#answer + 1], answer[#answer + 2] = each.queue, {} end
    end
  end
  local apart = misfits.apart(P)
  if #apart > 0 then answer[#answer + 1], answer[#answer + 2] = '?', apart end
  if look.may == false then answer[#answer + 1], answer[#answer + 2] = '!', NOTHING end
  return answer
end)
