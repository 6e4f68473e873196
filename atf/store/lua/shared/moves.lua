-- Moves of tasks that several verbs make: atf/task.py has the table of all moves.

-- A task goes from one status to another: its batch counts that, if it is an item.
function moves.recount(P, sets, id, from, to, now)
  if batch_parts.COUNTED[from] == batch_parts.COUNTED[to] then return end
  local batch = batch_of(id)
  if batch then sets.COUNT(P, batch, batch_parts.COUNTED[from], batch_parts.COUNTED[to], now) end
end

-- Moves a live task between two live states. `fields` are more fields to set.
function moves.move(P, sets, id, queue, from, to, score, now, ...)
  if from ~= to then
    sets.ZREM(live_key(P, queue, from), id)
    moves.recount(P, sets, id, from, to, now)  -- mutant: items_lost_uncounted
  end
  sets.ZADD(live_key(P, queue, to), fmt(score), id)
  redis.call('HSET', task_key(P, id), 's', to, MOVED[to], fmt(now), ...)
end

-- What a task's field `c` says of its newest claim: counter, number of the run, nonce, and the owner, "" once the run's result is recorded.
-- One field in place of four: each takes its share of every call about a task.
function moves.claim_of(text)
  if text then return string.match(text, '^(%d+) (%d+) ?(%S*) ?(.*)$') end
end

-- Whether the caller's token is the task's, and the task is held: the condition of every move out of a claim.
function moves.holds(status, counter, nonce, task_counter, task_nonce)
  return (status == 'CLAIMED' or status == 'PROCESSING') and task_counter == counter and task_nonce == nonce  -- mutant: no_fence
end

-- A task has failed for good: the version of its lambda's code is noted, where the code says one.
local function note_version(P, id, name)
  local version = registry.settings(P, name).version
  if version then redis.call('HSET', task_key(P, id), 'v', version) end
end

-- A task leaves its queue, or its executor, for good or for a while: what it held meanwhile (its field `h`, letters: p a permit,
-- k a slot of its concurrency key or a place in that key's line) others may have.
function moves.let_go(P, id, queue, held, now)
  if not held then return end
  redis.call('HDEL', task_key(P, id), 'h')
  if string.find(held, 'p', 1, true) then permits.freed(P, queue, now) end
  if string.find(held, 'k', 1, true) then
    local key = string.match(redis.call('HGET', task_key(P, id), 'kc'), '^%S+')
    redis.call('ZREM', slots_key(P, key), id)
    redis.call('ZREM', line_key(P, key), id)
    concurrency_keys.give_slots(P, key, now)
  end
end

local task = {}  -- one for all calls: to make it costs as much as a command

-- A task by name: what its end takes; it holds until the next one is read. And more fields of its record, in their order.
function moves.task(P, id, ...)
  local found = redis.call('HMGET', task_key(P, id), 's', 'q', 'lim', 'k', 'w', 'h', 'x', ...)
  task.id, task.status, task.queue, task.limits, task.ordering = id, found[1], found[2], found[3], found[4]
  task.watched, task.held, task.flagged = found[5], found[6], found[7]
  return task, unpack(found, 8)
end

-- Ends a task: out of the due index, into the finished set of its lambda, status and retention. `task`: see moves.task. More fields
-- to set may follow.
function moves.end_task(P, sets, task, to, now, ...)
  local id, queue, from, watched = task.id, task.queue, task.status, task.watched
  local name = lambda_of(queue)
  local _, _, retention = run_log.limits(task.limits)
  sets.ZREM(live_key(P, queue, from), id)
  local batch = batch_of(id)
  local list, class, noted = lists.finished(P, name, to, retention, now)
  sets.ZADD(done_key(P, list), fmt(now), id)  -- mutant: ended_entry
  if not noted then sets.NOTE(P, list, now) end
  redis.call('HSET', task_key(P, id), 's', to, MOVED[to], fmt(now), ...)
  if class then redis.call('HSET', task_key(P, id), 'rc', class) end
  if watched or task.flagged then redis.call('HDEL', task_key(P, id), 'x', 'w') end
  if task.held then moves.let_go(P, id, queue, task.held, now) end
  if to == 'FATAL_FAILURE' then
    note_version(P, id, name)
    failures.enter(P, id, name, now)
  end
  if task.ordering then ordering_keys.release(P, task.ordering, id, queue, to, now) end
  if watched then
    local of = string.sub(watched, 1, 1)
    if of == ticks.OF then ticks.ended(P, string.sub(watched, 2), id, to, now) end
    if of == ticks.BESIDE_OF then ticks.drop(P, string.sub(watched, 2), id) end
    redis.call('SPUBLISH', P .. ':notify:done', id)
  end
  if batch then sets.COUNT(P, batch, batch_parts.COUNTED[from], batch_parts.COUNTED[to], now) end
end

-- FATAL_FAILURE, CANCELLED -> NEW, due at `at`, which is now unless it is given, or behind others of its ordering key: at their end, or where it stopped them.
-- A window of its unique key that is open becomes its own. Where an unfinished task holds that, nothing is done, and that task is returned.
function moves.start_afresh(P, id, queue, status, key, now, at, sets)
  local unique, waits = redis.call('HGET', task_key(P, id), 'uk'), false
  if unique and tonumber(redis.call('ZSCORE', P .. ':uniques:expiry', unique) or 0) > now then
    local holder = redis.call('HGET', P .. ':uniques', unique)
    local its = holder ~= id and redis.call('HGET', task_key(P, holder), 's')
    if its and not FINISHED[its] then return holder end  -- mutant: retry_beside_holder
    redis.call('HSET', P .. ':uniques', unique, id)
  end
  at = at or now
  if key then at = math.max(at, ordering_keys.paused_until(P, key, id)) end
  if key and redis.call('LINDEX', order_key(P, key), 0) == ordering_keys.STOPPED .. id then
    redis.call('LPOP', order_key(P, key))
    redis.call('LPUSH', order_key(P, key), id)
    redis.call('ZREM', stops_key(P, lambda_of(queue)), key)
  elseif key then
    waits = redis.call('RPUSH', order_key(P, key), id) > 1
  end
  lists.leave_finished(P, sets or writes.AT_ONCE, id, queue, status)
  failures.forget(P, id, lambda_of(queue))
  redis.call('HDEL', task_key(P, id), 'rc', 'a', 'l', 'y', 'm', 'err', 'p', 'e', 'z', 'g', 'gd', 'v', 'mf', 'me', 'hd', 'wr', 'wp')
  local counter, run = moves.claim_of(redis.call('HGET', task_key(P, id), 'c'))
  if counter then redis.call('HSET', task_key(P, id), 'c', counter .. ' ' .. run) end  -- no late result finds its claim
  redis.call('HSET', task_key(P, id), 's', 'NEW', 'at', fmt(at), 't1', fmt(now))
  redis.call('ZADD', live_key(P, queue, 'NEW'), waits and '+inf' or fmt(at), id)
  if waits then due_index.wait(P, writes.AT_ONCE, queue) else pushing.due(P, queue, at, now) end
  moves.recount(P, sets or writes.AT_ONCE, id, status, 'NEW', now)
end

-- Cancels a task that has not started, or flags one that runs. Returns {status after it ("" = no such task), 1 cancelled now or before, 1 flagged}.
function moves.cancel(P, sets, id, now)
  local task, gate, misfit = moves.task(P, id, 'g', 'mf')
  local status = task.status
  if not status or status == 'TOMBSTONE' then return {'', 0, 0} end
  if FINISHED[status] then return {status, status == 'CANCELLED' and 1 or 0, 0} end
  if status == 'CLAIMED' or status == 'PROCESSING' then  -- mutant: cancel_without_state_check
    redis.call('HSET', task_key(P, id), 'x', '1')
    return {status, 0, 1}
  end
  if misfit and status == 'ENQUEUED' then misfits.leave(P, id, task.queue, misfits.read(misfit)) end
  if gate then  -- a gate has parked it
    redis.call('ZREM', parking.key(P, lambda_of(task.queue), gate), id)
    redis.call('HDEL', task_key(P, id), 'g')
  end
  moves.end_task(P, sets, task, 'CANCELLED', now)
  return {'CANCELLED', 1, 0}
end
