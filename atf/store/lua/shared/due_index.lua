-- The due index: when which queue is to be visited by a pass of a store consumer (enqueue.lua).

-- Makes sure that a queue is visited at `at` or before, and wakes the store consumers where that is earlier than anything
-- else they wait for.
function due_index.visit_by(P, queue, at)
  local index = P .. ':due'
  if redis.call('ZADD', index, 'LT', 'CH', fmt(at), queue) == 0 then return end
  if redis.call('ZRANGE', index, 0, 0)[1] == queue then redis.call('SPUBLISH', P .. ':notify:due', queue) end
end

-- The same where nobody is woken: by `at` entries of the queue expire, and store consumers look at the index now and then in any case.
function due_index.expect(P, queue, at) redis.call('ZADD', beside_key(P, 'due'), 'LT', fmt(at), queue) end

-- As visit_by for several queues, by the instants in `ats`: a few calls instead of two per queue.
function due_index.visit_all_by(P, ats)
  local index, scores, only = P .. ':due', {}, next(ats)
  if not only then return end
  if not next(ats, only) then return due_index.visit_by(P, only, ats[only]) end
  for queue, at in pairs(ats) do scores[#scores + 1], scores[#scores + 2] = fmt(at), queue end
  local before = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
  for first = 1, #scores, PART do
    redis.call('ZADD', index, 'LT', unpack(scores, first, math.min(first + PART - 1, #scores)))
  end
  local after = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
  if before[1] ~= after[1] or before[2] ~= after[2] then redis.call('SPUBLISH', P .. ':notify:due', after[1]) end
end

local sets_made, sets_count = {}, 0  -- by statuses, partition and lambda: to name them all costs more than to ask whether they are there
local SETS_REMEMBERED = 1024  -- lambdas, each with some kilobytes; then all is forgotten

-- The sets of a lambda's tasks of some statuses, for each priority in the order of the statuses. Nobody writes into the answer.
function due_index.sets_of(P, name, statuses)
  local of = table.concat(statuses, ' ') .. P .. name
  if sets_made[of] then return sets_made[of] end
  local sets = {}
  for priority = 0, MAX_PRIORITY do
    for _, status in ipairs(statuses) do sets[#sets + 1] = P .. ':s:' .. name .. ':' .. priority .. ':' .. status end
  end
  if sets_count == SETS_REMEMBERED then sets_made, sets_count = {}, 0 end
  sets_made[of], sets_count = sets, sets_count + 1
  return sets
end

local function holds_tasks(P, queue)
  local sets = {}
  for number, status in ipairs(LIVE) do sets[number] = live_key(P, queue, status) end
  return redis.call('EXISTS', unpack(sets)) > 0
end

-- Nothing in a queue is due at any instant. Where it holds live tasks for all that, which a gate or a pause keeps, or which wait behind others,
-- `unvisited` names it: a queue with live tasks stands there or in the due index.
function due_index.leave(P, queue)
  redis.call('ZREM', beside_key(P, 'due'), queue)
  if holds_tasks(P, queue) then
    due_index.wait(P, writes.AT_ONCE, queue)
  else
    redis.call('ZREM', beside_key(P, 'unvisited'), queue)
  end
end

-- A task of a queue waits for no instant.
function due_index.wait(P, sets, queue) sets.ZADD(beside_key(P, 'unvisited'), '0', queue) end

local queues_of = remembered(function(_, name)
  local queues = {}
  for priority = 0, MAX_PRIORITY do queues[priority + 1] = name .. ':' .. priority end
  return queues
end)

-- Whether a pass is to visit other queues of a queue's lambda now.
function due_index.others_are_due(P, queue, now)
  local queues = queues_of('', lambda_of(queue))
  for number, at in ipairs(redis.call('ZMSCORE', beside_key(P, 'due'), unpack(queues))) do
    if at and tonumber(at) <= now and queues[number] ~= queue then return true end
  end
  return false
end

-- The queues of a lambda that may hold live tasks, the most urgent first.
function due_index.queues_of(P, name)
  local queues, found = queues_of('', name), {}
  local due, unvisited = redis.call('ZMSCORE', beside_key(P, 'due'), unpack(queues)), redis.call('ZMSCORE', beside_key(P, 'unvisited'), unpack(queues))
  for number, queue in ipairs(queues) do
    if due[number] or unvisited[number] then found[#found + 1] = queue end
  end
  return found
end

-- A lambda is forgotten: its queues that hold nothing are not named any more.
function due_index.forget(P, name)
  for _, queue in ipairs(due_index.queues_of(P, name)) do
    if not holds_tasks(P, queue) then redis.call('ZREM', beside_key(P, 'unvisited'), queue) end
  end
end

-- The queues of all lambdas that may hold live tasks.
function due_index.queues(P)
  local queues, known = redis.call('ZRANGE', beside_key(P, 'due'), 0, -1), {}
  for _, queue in ipairs(queues) do known[queue] = true end
  for _, queue in ipairs(redis.call('ZRANGE', beside_key(P, 'unvisited'), 0, -1)) do
    if not known[queue] then queues[#queues + 1] = queue end
  end
  return queues
end

-- Has all queues of a lambda looked at that hold live tasks.
function due_index.visit_lambda(P, name, now)
  for _, queue in ipairs(due_index.queues_of(P, name)) do due_index.visit_by(P, queue, now) end
end

-- How long it is until the first instant of a sorted set, or nil: it is empty; and for how long that has been over.
function due_index.first_in(set, now)
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  if not first[2] then return nil, 0 end
  local wait = tonumber(first[2]) - now
  return math.max(wait, 0), math.max(-wait, 0)
end
