-- A visit of a queue by a pass of a store consumer, in four steps: it ends leases, pushes again what went astray, pushes what is due,
-- and says in the due index when the queue is to be visited next.
--
-- A pass is a table of what its visits count and find (see enqueue.lua). Of a queue's lambda it has `limit`, `timeout`, `paused`, `settings` (its
-- other settings), `gates` and `misfits_until`, as they stand in its record.
--
-- What a call makes due is pushed by the same steps, without a pass (pushing.lua).

local LEASED = {'CLAIMED', 'PROCESSING'}
local PUSHED = {'RETRIABLE_FAILURE', 'NEW'}

local function first_score(P, queue, status)
  local first = redis.call('ZRANGE', live_key(P, queue, status), 0, 0, 'WITHSCORES')
  local score = first[2] and tonumber(first[2])
  if score and score < math.huge then return score end
end

local PLACE = {NEW = 1, RETRIABLE_FAILURE = 2, ENQUEUED = 3, CLAIMED = 4, PROCESSING = 5}

local function none_read() return {true, true, true, true, true} end  -- true: not read; in an array, which is less to make

-- The first instant of those with a status, or false. `firsts` holds what was read so, since each call of Redis counts: of a task that
-- comes and goes alone, a visit is a third of all that the store does.
local function first_of(P, queue, status, firsts)
  local place = PLACE[status]
  if firsts[place] == true then firsts[place] = first_score(P, queue, status) or false end
  return firsts[place]
end

local function due_ids(P, queue, status, now, limit, firsts)
  local first = limit > 0 and first_of(P, queue, status, firsts)
  if not first or first > now then return NOTHING end
  firsts[PLACE[status]] = true
  return redis.call('ZRANGE', live_key(P, queue, status), '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(limit))
end

-- The same, of those that leave the set in this visit. One that is due alone, as of tasks that come one by one, is told by the call that
-- also says what is first then.
local function due_to_leave(P, queue, status, now, limit, firsts)
  local place = PLACE[status]
  if limit <= 0 or firsts[place] == false then return NOTHING end
  local two = redis.call('ZRANGE', live_key(P, queue, status), 0, 1, 'WITHSCORES')
  local first, second = tonumber(two[2]) or math.huge, tonumber(two[4]) or math.huge
  if second <= now then
    firsts[place] = first
    return due_ids(P, queue, status, now, limit, firsts)
  end
  local left = first > now and first or second
  firsts[place] = left < math.huge and left
  return first <= now and {two[1]} or NOTHING
end

local of_lambda, visit = {}, {}  -- one for all visits: to make them costs as much as a command

-- Of a queue's lambda what a visit needs; it holds until the next one is read.
function queue_visit.lambda(P, name)
  of_lambda.limit, of_lambda.timeout, of_lambda.paused, of_lambda.settings, of_lambda.gates, of_lambda.misfits_until =
    fields_of(lambda_key(P, name), 'limit', 'timeout', 'paused', 'settings', 'gates', 'mis')
  return of_lambda
end

-- Begins a visit. `pushed` and `length` follow the queue as it changes; `settings` is nil where nothing has to be checked there.
local function open_visit(P, queue, lambda, now)
  local pushed, keyed, left = fields_of(queue_key(P, queue), 'pushed', 'keyed', 'left')
  local limit, timeout, list = lambda.limit, lambda.timeout, list_key(P, queue)
  local settings = (lambda.settings or keyed or lambda.gates) and registry.settings_of(lambda.settings) or nil
  if settings then settings.gates = lambda.gates or nil end
  visit.queue, visit.list, visit.settings, visit.keyed, visit.pushed, visit.length, visit.now = queue, list, settings, keyed, tonumber(pushed or 0), 0, now
  visit.left, visit.unknown, visit.paused = left, not limit, lambda.paused == '1' or not limit  -- where it is not known, its limits and gates are not, either
  visit.limit, visit.timeout = tonumber(limit or DEFAULT_QUEUE_LIMIT), tonumber(timeout or DEFAULT_ENQUEUE_TIMEOUT)
  visit.expires = now + visit.timeout
  visit.unfit, visit.looked, visit.enqueued, visit.again, visit.stuck, visit.held = misfits.lately(lambda.misfits_until, now), 0, 0, 0, false, false
end

-- Until when an entry is left alone that has so many before it. Of a long queue, those far from its front are looked at less often: to look
-- at each costs the store 3 us, and what nobody took before is there still.
local function stands_until(ahead)
  return visit.expires + math.floor(ahead / STRETCH) * visit.timeout
end

-- What of the visited queue is empty.
local function look_around(P, queue)
  local list = visit.list
  local processing, retriable = live_key(P, queue, 'PROCESSING'), live_key(P, queue, 'RETRIABLE_FAILURE')
  if redis.call('EXISTS', list, processing, retriable, live_key(P, queue, 'ENQUEUED'), live_key(P, queue, 'CLAIMED')) == 0 then
    visit.firsts = {true, false, false, false, false}  -- all of it is NEW, as where many lambdas have a task each: one call instead of five
    return
  end
  visit.firsts, visit.length = none_read(), redis.call('LLEN', list)
  if redis.call('EXISTS', processing, retriable) == 0 then
    visit.firsts[PLACE.PROCESSING], visit.firsts[PLACE.RETRIABLE_FAILURE] = false, false
  end
end

-- CLAIMED, PROCESSING whose leases are over.
local function end_leases(P, pass, most)
  local queue, lost = visit.queue, 0
  for _, status in ipairs(LEASED) do
    for _, id in ipairs(due_ids(P, queue, status, pass.lease_now, most - visit.looked, visit.firsts)) do
      visit.looked = visit.looked + 1
      if redis.call('EXISTS', task_key(P, id)) == 1 then
        loss.record(P, id, visit.now)
        lost, pass.expired[#pass.expired + 1] = lost + 1, id
      else
        redis.call('ZREM', live_key(P, queue, status), id)
        lists.leave(P, writes.AT_ONCE, id, lambda_of(queue))
      end
    end
  end
  if lost == 0 then return end
  visit.firsts = none_read()  -- one that ends may make others due
  pass.lost, pass.rare = pass.lost + lost, true
end

-- Puts tasks to the front of their queue: they waited before.
local function push_to_front(P, ids)
  local length = visit.length
  for i = #ids, 1, -1 do
    moves.move(P, writes.AT_ONCE, ids[i], visit.queue, 'ENQUEUED', 'ENQUEUED', visit.expires, visit.now, 'e', fmt(visit.pushed - length))
    length = redis.call('LPUSH', visit.list, ids[i])
    visit.again = visit.again + 1
  end
  visit.length = length
end

-- ENQUEUED and expired: what still stands in the queue only gets a new instant, so that a backlog grows no duplicates.
-- The rest was handed back, or its entry was lost; it waited before, so it goes to the front.
-- While the lambda is paused they all wait as they are, to be looked at as soon as it goes on. What the rate holds back does, too.
local function push_again(P, pass, most, most_again)
  local queue, front, parked = visit.queue, NOTHING, false
  for _, id in ipairs(due_ids(P, queue, 'ENQUEUED', visit.now, visit.paused and 0 or most - visit.looked, visit.firsts)) do
    local status, entry, misfit = fields_of(task_key(P, id), 's', 'e', 'mf')
    entry = tonumber(entry or nil)
    visit.looked = visit.looked + 1
    if not status then
      redis.call('ZREM', live_key(P, queue, 'ENQUEUED'), id)
      lists.leave(P, writes.AT_ONCE, id, lambda_of(queue))
    elseif entry and entry > visit.pushed - visit.length then  -- mutant: backlog_pushed_again
      redis.call('ZADD', live_key(P, queue, 'ENQUEUED'), fmt(stands_until(entry - visit.pushed + visit.length - 1)), id)
      pass.standing = pass.standing + 1
    elseif visit.length + #front >= visit.limit then
      visit.stuck = true
    elseif #front + visit.again >= most_again then
      visit.held = true
      break
    elseif misfit then
      local what = misfits.look(P, id, queue, misfit, visit.expires, visit.now)
      if what == 'standing' then pass.standing = pass.standing + 1 elseif what == 'again' then visit.again = visit.again + 1 else parked = true end
    else
      if #front == 0 then front = {} end
      front[#front + 1] = id  -- mutant: lost_pop_not_redriven
    end
  end
  if #front > 0 then push_to_front(P, front) end
  if parked then visit.firsts = none_read() end  -- it is NEW now, and holds nothing
end

-- Pushes a task, as push_some does, which the visits before have left: its record says why.
local function push_late(P, id, status, left, number)
  local due = status == 'RETRIABLE_FAILURE' and redis.call('ZSCORE', live_key(P, visit.queue, status), id)
  local new = redis.call('HSET', task_key(P, id), 's', 'ENQUEUED', 't2', fmt(visit.now), 'e', number, 'wp', left)
  if due and new < 4 then wait_notes.note(P, id, redis.call('HGET', task_key(P, id), 'wr'), 'b', tonumber(due)) end
  return new
end

-- Pushes tasks with a status, past their lambda's admission. `apart`: those that stand beside the queue; `slotted`: those with a slot of their
-- concurrency key.
local function push_some(P, room, status, ids, apart, slotted)
  local queue, now, expires, pushed = visit.queue, visit.now, stands_until(visit.length), visit.pushed
  local found, scores, beside, left = {}, {}, 0, visit.left
  for _, id in ipairs(ids) do
    local number = not apart[id] and fmt(pushed + #found + 1) or ''
    local new = left and push_late(P, id, status, left, number) or redis.call('HSET', task_key(P, id), 's', 'ENQUEUED', 't2', fmt(now), 'e', number)
    if new == (left and 4 or 3) then
      redis.call('DEL', task_key(P, id))  -- not even the status was there before: no record
      lists.leave(P, writes.AT_ONCE, id, lambda_of(queue))
    else
      if status == 'RETRIABLE_FAILURE' then moves.recount(P, writes.AT_ONCE, id, status, 'ENQUEUED', now) end
      if room and room.running then redis.call('HSET', task_key(P, id), 'h', slotted and slotted[id] and 'kp' or 'p') end
      if apart[id] then
        misfits.join(P, id, queue, apart[id], now)
        beside = beside + 1
      else
        found[#found + 1] = id
      end
      scores[#scores + 1], scores[#scores + 2] = fmt(apart[id] and misfits.stands(expires, now) or expires), id
    end
  end
  redis.call('ZREM', live_key(P, queue, status), unpack(ids))
  if #scores == 0 then return end
  redis.call('ZADD', live_key(P, queue, 'ENQUEUED'), unpack(scores))
  local first = visit.firsts[PLACE.ENQUEUED]
  if first ~= true then visit.firsts[PLACE.ENQUEUED] = math.min(first or expires, expires) end
  if #found > 0 then visit.length = redis.call('RPUSH', visit.list, unpack(found)) end
  visit.pushed, visit.enqueued = pushed + #found, visit.enqueued + #found + beside
  if room then room.left = room.left - #found - beside end
end

-- NEW, RETRIABLE_FAILURE and due: `most` of them at most are looked at, and pushed unless something keeps them.
local function push_due(P, pass, room, most)
  local queue, now, settings, firsts = visit.queue, visit.now, visit.settings, visit.firsts
  for _, status in ipairs(PUSHED) do
    local left = math.min(most - visit.looked, visit.limit - visit.length)
    if room then left = math.min(left, room.left) end
    local apart, gated, slotted = NOTHING, 0, nil
    local ids = due_to_leave(P, queue, status, now, left, firsts)  -- mutant: pushed_early
    visit.looked = visit.looked + #ids
    if visit.unfit and #ids > 0 then ids, apart = misfits.sift(P, queue, status, ids, now) end
    if settings and #ids > 0 then
      ids, gated, slotted = admission.admit(P, queue, status, ids, now, settings, visit.keyed)
      pass.gated = pass.gated + gated
    end
    if #ids > 0 then push_some(P, room, status, ids, apart, slotted) end
  end
  if visit.enqueued > 0 then redis.call('HSET', queue_key(P, queue), 'pushed', fmt(visit.pushed)) end
end

-- When tasks of a status are to be looked at next, whose first instant is `score`; and whether they wait for the lambda's limits.
local function look_again(pass, room, status, score)
  if visit.unknown then
    return math.max(score, visit.now + UNKNOWN_REVISIT), false  -- the answer may be forgotten by its server: then it is asked anew
  end
  if score > visit.now then return score, false end
  if status == 'CLAIMED' or status == 'PROCESSING' then
    -- Overdue by a clock that is not believed yet. It may be believed any moment, by a consumer that has just started: soon again.
    return visit.now + math.min(score - pass.lease_now, store_clock.REVISIT), false
  end
  local waits = room and (status == 'ENQUEUED' and visit.held or status ~= 'ENQUEUED' and room.left <= 0)
  return waits and room.again or score, waits
end

-- Notes why due tasks are left to the next visits: l a limit, f the queue is full; nil: none are, or only until the next pass.
local function note_left(P, left)
  if left == (visit.left or nil) then return end
  if left then redis.call('HSET', queue_key(P, visit.queue), 'left', left) else redis.call('HDEL', queue_key(P, visit.queue), 'left') end
end

-- When the queue is to be visited next; nil: nothing in it is due at any instant. `most`: of tasks that this visit might have looked at.
local function close_visit(P, pass, room, most)
  local queue, now, next_at, short = visit.queue, visit.now, nil, false
  if visit.settings or visit.unfit then visit.firsts = none_read() end  -- gates, slots and permits move tasks of each status
  for _, status in ipairs(visit.paused and not visit.unknown and LEASED or LIVE) do
    local score, waits = first_of(P, queue, status, visit.firsts), false
    if score then score, waits = look_again(pass, room, status, score) end
    short = short or waits
    if score and (not next_at or score < next_at) then next_at = score end
  end
  if room and permits.take(P, queue, room, visit.enqueued, visit.again, short, now) then next_at = now end
  -- Full, and nothing else is left to do (leases come before what is stuck): looking again would not help before something is taken.
  if next_at and next_at <= now and visit.length >= visit.limit and (visit.stuck or visit.looked < most) then
    redis.call('HSET', queue_key(P, queue), 'full', '1')
    note_left(P, 'f')
    next_at = now + FULL_REVISIT
  elseif short or not next_at or next_at > now then
    note_left(P, short and 'l' or nil)
  end
  return next_at and math.max(next_at, now)
end

-- Visits a queue, and adds what it did to the pass. Returns how many tasks it looked at: of those that are pushed for the first time `budget`
-- at most, of others `budget_again`. Of the budget and the lambda's permits so many are `kept` for its other queues.
function queue_visit.visit(P, queue, lambda, pass, budget_again, budget, kept)
  local now = pass.now
  open_visit(P, queue, lambda, now)
  look_around(P, queue)
  end_leases(P, pass, budget_again)
  local room = visit.settings and not visit.paused and permits.room(P, queue, visit.settings, now) or nil
  push_again(P, pass, budget_again, room and room.bucket and room.bucket.left - kept or math.huge)
  if room then
    if room.bucket then permits.bound_by_rate(room, visit.again, visit.held, now) end
    room.left = math.max(room.left - kept, 0)
  end
  if not visit.paused then push_due(P, pass, room, budget - kept) end
  local next_at = close_visit(P, pass, room, budget - kept)
  if next_at then redis.call('ZADD', beside_key(P, 'due'), fmt(next_at), queue) else due_index.leave(P, queue) end
  pass.enqueued, pass.again = pass.enqueued + visit.enqueued, pass.again + visit.again
  pass.visited[#pass.visited + 1] = queue
  if visit.settings then pass.rare = true end
  if visit.enqueued + visit.again > 0 then pass.pushed[#pass.pushed + 1] = queue end
  return visit.looked
end

-- Whether due tasks of the visited queue are left to the next pass, whatever holds each of them.
local function leaves_all()
  return visit.paused or visit.unfit or visit.left or visit.length >= visit.limit  -- mutant: pushed_when_paused
end

-- Whether tasks wait in the queue that were due before those of this call.
local function older_are_due(P, queue, now)
  for _, status in ipairs(PUSHED) do
    local first = first_score(P, queue, status)
    if first and first <= now then return true end
  end
  return false
end

-- Where the next tasks would stand that are due as they are stored: behind `number` that were pushed, with room for so many, until they expire.
-- false: they are left to the next pass; nil: each has to pass the lambda's admission.
function queue_visit.place(P, queue, now)
  open_visit(P, queue, queue_visit.lambda(P, lambda_of(queue)), now)
  local list = visit.list
  -- One call tells what is there: each of the two sets counts 1, the list 3, being named three times.
  local found = redis.call('EXISTS', live_key(P, queue, 'NEW'), live_key(P, queue, 'RETRIABLE_FAILURE'), list, list, list)
  if found >= 3 then visit.length = redis.call('LLEN', list) end
  if found % 3 > 0 then
    if older_are_due(P, queue, now) then return false end  -- mutant: pushed_past_older
  end
  if leaves_all() then return false end
  if visit.settings then return nil end  -- mutant: pushed_past_limit
  return {number = visit.pushed, room = visit.limit - visit.length, now = now, expires = stands_until(visit.length)}
end

local own = {}  -- in the place of a pass

-- Pushes the `made` tasks that a call has made due in a queue, as a pass would. Returns whether any was pushed, when the queue is to be visited
-- next, and when what was pushed expires; nil: it has left them all to the next pass.
function queue_visit.push_made(P, queue, made, now)
  open_visit(P, queue, queue_visit.lambda(P, lambda_of(queue)), now)
  look_around(P, queue)
  if leaves_all() then return nil end
  local due = 0
  for _, status in ipairs(PUSHED) do due = due + redis.call('ZCOUNT', live_key(P, queue, status), '-inf', fmt(now)) end
  if due > made then return nil end  -- others came first
  local room = visit.settings and permits.room(P, queue, visit.settings, now) or nil
  if room and (permits.waiting_priorities(P, room.name) ~= '' or due_index.others_are_due(P, queue, now)) then return nil end  -- a pass deals what is free
  own.gated, own.lease_now = 0, now
  push_due(P, own, room, made)
  local next_at = close_visit(P, own, room, made)
  if visit.pushed == visit.enqueued then next_at = now end  -- as pushing.put
  return visit.enqueued > 0, next_at, visit.expires
end
