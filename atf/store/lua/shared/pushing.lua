-- A call pushes the tasks that it makes due, at its end, by the admission of a store consumer's pass.
-- MOVES    enqueue: NEW, RETRIABLE_FAILURE -> ENQUEUED; gate: NEW, RETRIABLE_FAILURE;
--          drop: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; cancel a running task: CLAIMED, PROCESSING
--
-- The call leaves tasks to the next pass if older tasks of their queue are due (newer ones would overtake them for ever), if the queue is full,
-- if the lambda is paused, not known here or had misfits lately, or if other queues of the lambda wait for its limits.
-- A caller may leave all pushing to store consumers (setting push_when_scheduled): the instant that it gives then begins with a minus.
--
-- A task that is due when it is stored is stored as ENQUEUED if its lambda's admission has nothing to look at (pushing.number).

local MINUS = 45

local call = {}  -- the one that is under way: whether it `gathers`, `pushes`; `now`, `places`, when to visit which queue (`visits`), `made`, `pushed`

-- A verb that gathers what it makes due, and pushes it at its end. It also does so if it fails: what has moved must be found where it is now.
function pushing.around(verb)
  return function(keys, args)
    call.gathers, call.pushes = true, string.byte(args[1]) ~= MINUS
    call.places, call.visits, call.made, call.pushed = nil, nil, nil, nil
    local done, reply = pcall(verb, keys, args)
    call.gathers = false  -- what a visit makes due is left to the next pass
    if call.visits then pushing.end_call(keys[1]) end
    if call.pushed then redis.call('SPUBLISH', beside_key(keys[1], 'notify:ready'), table.concat(call.pushed, '\n')) end
    if not done then error(reply, 0) end
    return reply
  end
end

-- A task waits for `at`. Its queue is visited then; if that has come, this call may push it.
function pushing.due(P, queue, at, now)
  if not call.gathers then return due_index.visit_by(P, queue, at) end
  if not call.visits then call.now, call.visits, call.made = now, {}, {} end
  call.visits[queue] = math.min(call.visits[queue] or at, at)
  if at <= now then call.made[queue] = (call.made[queue] or 0) + 1 end
end

-- Pushes what the call has made due, and has the queues visited when the rest will be.
function pushing.end_call(P)
  local visits = call.visits
  for queue, made in pairs(call.pushes and call.made or NOTHING) do
    if not call.places or call.places[queue] ~= false then
      local pushed, next_at, expires = queue_visit.push_made(P, queue, made, call.now)
      if pushed then pushing.note(queue) end
      visits[queue] = next_at or visits[queue]
      if next_at and next_at >= expires then
        due_index.expect(P, queue, next_at)
        visits[queue] = nil
      end
    end
  end
  due_index.visit_all_by(P, visits)
end

-- Those that wait for its queue's tasks are notified of it.
function pushing.note(queue)
  if not call.pushed then call.pushed = {} end
  call.pushed[#call.pushed + 1] = queue
end

-- The number that the entry of a task has in its queue, if the task is stored now, due, and admitted without a look at it. Else nil: it is
-- stored as NEW. `keyed`: it has a concurrency key.
function pushing.number(P, queue, now, keyed)
  if not call.pushes then return nil end
  if not call.places then call.places = {} end
  local place = call.places[queue]
  if place == nil then
    place = not keyed and queue_visit.place(P, queue, now)
    if place == nil or keyed then place = {room = 0} end
    call.places[queue] = place
  end
  if place and keyed then place.room = 0 end  -- from now on, tasks of the queue are looked at
  if not place or place.room <= 0 then return nil end
  place.number, place.room = place.number + 1, place.room - 1
  return place.number
end

-- Puts tasks that have such numbers onto their queue, in their order.
function pushing.put(P, queue, ids)
  local place, scores = call.places[queue], {}
  local expires = fmt(place.expires)
  for number, id in ipairs(ids) do scores[2 * number - 1], scores[2 * number] = expires, id end
  redis.call('RPUSH', list_key(P, queue), unpack(ids))
  redis.call('ZADD', live_key(P, queue, 'ENQUEUED'), unpack(scores))
  redis.call('HSET', queue_key(P, queue), 'pushed', place.number)
  if place.number == #ids then
    due_index.visit_by(P, queue, place.now)  -- its first entries ever: a store consumer makes it known to RQ's tools
  else
    due_index.expect(P, queue, place.expires)
  end
  pushing.note(queue)
end
