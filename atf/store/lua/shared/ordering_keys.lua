-- Ordering keys. Each is a list of its unfinished tasks in the order of their acceptance, of which only the first
-- may become due (see `ordering_keys.advance` and `ordering_keys.release`). A lambda may have its keys stop at a task that fails for good.

ordering_keys.STOPPED = '!'  -- in front of an ordering key's tasks, before the id of the one that failed: the key has stopped

-- Until when nothing of an ordering key may start, where that is a target of a batch that wants a pause between two items.
function ordering_keys.paused_until(P, key, id)
  local batch = batch_of(id)
  return batch and tonumber(redis.call('HGET', pauses_key(P, batch), key) or nil) or 0
end

-- An item of such a target has ended, or has failed: the pause begins.
function ordering_keys.pause_target(P, key, id, now)
  local batch = batch_of(id)
  local pause = batch and redis.call('HGET', task_key(P, id), 'gap')
  if pause then redis.call('HSET', pauses_key(P, batch), key, fmt(now + tonumber(pause))) end
end

-- What is now at the head of an ordering key may become due.
function ordering_keys.advance(P, key, now)
  local list = order_key(P, key)
  for _ = 1, PART do
    local id = redis.call('LINDEX', list, 0)
    if not id or string.sub(id, 1, 1) == ordering_keys.STOPPED then return end
    local status, queue, scheduled_at = fields_of(task_key(P, id), 's', 'q', 'at')
    if status and status ~= 'TOMBSTONE' and not FINISHED[status] then
      if status == 'NEW' then
        local free_at = math.max(now, ordering_keys.paused_until(P, key, id))
        local at = math.max(tonumber(scheduled_at), free_at)
        redis.call('ZADD', live_key(P, queue, 'NEW'), fmt(at), id)
        wait_notes.note(P, id, nil, 'o', free_at)
        pushing.due(P, queue, at, now)
      end
      return
    end
    redis.call('LPOP', list)  -- somebody has deleted its record: it must not hold up the others
  end
end

-- A task of an ordering key has finished: the next one may become due, or the key stops where it failed.
function ordering_keys.release(P, key, id, queue, to, now)
  local list = order_key(P, key)
  if redis.call('LINDEX', list, 0) ~= id then
    redis.call('LREM', list, 1, id)
    return
  end
  redis.call('LPOP', list)
  ordering_keys.pause_target(P, key, id, now)
  local name = lambda_of(queue)
  local stops = to == 'FATAL_FAILURE' and not batch_of(id)  -- mutant: stopped_key_goes_on
  if stops and registry.settings(P, name).stop == '1' then
    redis.call('LPUSH', list, ordering_keys.STOPPED .. id)
    redis.call('ZADD', stops_key(P, name), fmt(now), key)
  else
    ordering_keys.advance(P, key, now)
  end
end

-- The field k of a lambda's ordering key, and the task at which the key has stopped; nil where it has not.
function ordering_keys.stopped_at(P, name, key)
  local k = name .. ':' .. key
  local head = redis.call('LINDEX', order_key(P, k), 0)
  if head and string.sub(head, 1, 1) == ordering_keys.STOPPED then return k, string.sub(head, 2) end
end

-- Takes a stop away. The task that failed stays what it is.
function ordering_keys.pass_over(P, name, k, now)
  redis.call('LPOP', order_key(P, k))
  redis.call('ZREM', stops_key(P, name), k)
  ordering_keys.advance(P, k, now)
end
