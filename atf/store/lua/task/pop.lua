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
-- (see store_clock.gives), nothing is taken.

local MAX_NAMED = 8192  -- queues that are looked into where all are to be named
local IN_ONE_CALL = 64  -- that one call of Redis tells to be empty
local MAX_DRAWN = 256  -- ids of lambdas with a placement that one pop looks at; behind them it takes what comes first

-- Calls look(queue, length) for those of some queues, queues[from] to queues[to], that hold something, until it answers true. Returns the
-- last one that it has looked at. Mostly all are empty: one call of Redis tells that of many.
local function each_filled(P, queues, from, to, look)
  for first = from, to, IN_ONE_CALL do
    local last, lists = math.min(first + IN_ONE_CALL - 1, to), {}
    for i = first, last do lists[#lists + 1] = list_key(P, queues[i]) end
    local empty = first < last and redis.call('EXISTS', unpack(lists)) == 0  -- of one alone its length says so itself
    for i = first, empty and first - 1 or last do
      local length = redis.call('LLEN', lists[i - first + 1])
      if length > 0 and look(queues[i], length) then return i end
    end
  end
  return to
end

local function name_filled(P, queues, from, to, answer)
  each_filled(P, queues, from, to, function(queue) answer[#answer + 1], answer[#answer + 2] = queue, NOTHING end)
end

-- Names all queues that hold something. Whatever stands in one has an instant in the due index, but for what is paused. Those that are
-- looked at soonest come first, so beyond MAX_NAMED each has its turn within an enqueue timeout.
local function name_all_filled(P, answer)
  local queues = redis.call('ZRANGE', P .. ':due', 0, MAX_NAMED - 1)
  name_filled(P, queues, 1, #queues, answer)
end

-- Whether claims are given, which is asked where anything was found: most pops, of hosts that wait for work, find nothing.
local function may_give(P, look, now)
  if look.may == nil then
    look.may = store_clock.gives(P, now)  -- mutant: no_pause_after_rollback_pop
  end
  return look.may
end

-- Those of some queues, queues[from] to queues[to], that hold something for this pool; also added to their lambda's in `list_lambdas`. It looks
-- no further than there are ids `wanted`, one of each, and returns where it has ended.
local function filled(P, queues, from, to, args, lambdas, look, wanted)
  local pool, host, found = args[3], args[4], NOTHING
  local last = each_filled(P, queues, from, to, function(queue, length)
    local name = lambda_of(queue)
    local ours, placed
    if may_give(P, look, args[1]) then ours, placed = registry.gives_to(P, name, pool) end
    if not ours then return false end
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
    wanted = wanted - (each.wants > 0 and 1 or 0)
    return wanted <= 0
  end)
  return found, last
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
      due_index.visit_by(P, queue, instant(args[1]))
    end
  end
  return ids, leaves
end

register('pop', {'allow-oom'}, function(keys, args)
  local P, wanted = keys[1], tonumber(args[2])
  local answer, lambdas, behind, others, look, i = {}, {}, {}, {}, {drawn = 0, may = nil}, 5
  if #args < i then name_all_filled(P, answer) end
  while i <= #args do
    local next_one, last = i + 1, i + tonumber(args[i])
    if wanted > 0 then
      local found, looked = filled(P, args, next_one, last, args, lambdas, look, wanted)
      wanted, next_one = share(found, wanted), looked + 1
    end
    for j = next_one, last do  -- a lambda's priorities have their shares of what it gets; the others stand back
      local of = lambdas[lambda_of(args[j])]
      local into = of and got(of) > 0 and behind or others
      into[#into + 1] = args[j]
    end
    i = last + 1
  end
  name_filled(P, others, 1, #others, answer)
  filled(P, behind, 1, #behind, args, lambdas, look, #behind)
  for _, name in ipairs(lambdas) do
    local queues = lambdas[name]
    if #queues > 1 and got(queues) > 0 then fair_shares.deal(P, name, queues, got(queues), 'pops') end
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
