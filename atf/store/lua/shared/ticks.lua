-- What becomes of the live tasks of a job when it is deleted, is paused, or goes on. Each call deals with TICKS_PER_CALL of them at most.

-- Cancels the tasks of a job that have not started; of those that run, this run is the last. `budget.left`: of how many this call may still do
-- so. Returns how many there were, and whether there are more.
function ticks.cancel(P, name, budget, now)
  local tasks = redis.call('ZCOUNT', ticks.key(P, name), ticks.TICK, ticks.BESIDE)
  local most = math.min(tasks, budget.left)
  budget.left = budget.left - most
  for _, id in ipairs(redis.call('ZRANGE', ticks.key(P, name), ticks.TICK, ticks.BESIDE, 'BYSCORE', 'LIMIT', 0, fmt(most))) do
    local status = redis.call('HGET', task_key(P, id), 's')
    if status == 'CLAIMED' or status == 'PROCESSING' then
      if redis.call('HEXISTS', task_key(P, id), 'x') == 0 then  -- else it is to be stopped, and that stands
        redis.call('HSET', task_key(P, id), 'x', ticks.LAST_RUN)  -- mutant: delete_leaves_retries
      end
      local beside = tonumber(redis.call('ZSCORE', ticks.key(P, name), id)) == ticks.BESIDE
      if beside then redis.call('ZREM', ticks.key(P, name), id) else redis.call('ZADD', ticks.key(P, name), ticks.ORPHAN, id) end
    elseif status and status ~= 'TOMBSTONE' and not FINISHED[status] then
      cancel_task(P, AT_ONCE, id, now)  -- mutant: delete_leaves_ticks
    else
      redis.call('ZREM', ticks.key(P, name), id)  -- somebody has deleted its record
    end
  end
  ticks.strike_off(P, name)
  return tasks, tasks > most
end

-- Keeps ticks that wait, from now on or as soon as their runs have failed, until their job goes on. Returns whether there are more.
function ticks.hold_all(P, name, now)
  for _, id in ipairs(redis.call('ZRANGE', ticks.key(P, name), ticks.TICK, ticks.TICK, 'BYSCORE', 'LIMIT', 0, TICKS_PER_CALL)) do
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'at', 'g', 'h', 'mf')
    local status = task[1]
    redis.call('ZADD', ticks.key(P, name), ticks.HELD, id)
    if task[4] then  -- a gate keeps it as well
      redis.call('HSET', task_key(P, id), 'hd', task[3])
    elseif status == 'NEW' or status == 'RETRIABLE_FAILURE' then
      ticks.keep(P, AT_ONCE, name, id, task[2], status, tonumber(redis.call('ZSCORE', live_key(P, task[2], status), id)), nil, now)
    elseif status == 'ENQUEUED' then
      if task[6] then misfits.leave(P, id, task[2], misfits.read(task[6])) end
      -- from its own instant on, so that those that stood in the queue come back in their order
      ticks.keep(P, AT_ONCE, name, id, task[2], status, math.min(tonumber(task[3]), now), task[5], now)
    end
  end
  return redis.call('ZCOUNT', ticks.key(P, name), ticks.TICK, ticks.TICK) > 0
end

-- Lets ticks go on that a pause has kept: they are due when they would have been. Returns whether there are more.
function ticks.release(P, name, now)
  for _, id in ipairs(redis.call('ZRANGE', ticks.key(P, name), ticks.HELD, ticks.HELD, 'BYSCORE', 'LIMIT', 0, TICKS_PER_CALL)) do
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'hd', 'g')
    redis.call('ZADD', ticks.key(P, name), ticks.TICK, id)
    if task[3] then
      redis.call('HDEL', task_key(P, id), 'hd')
      if not task[4] then  -- else a gate keeps it
        redis.call('ZADD', live_key(P, task[2], task[1]), task[3], id)
        visit_by(P, task[2], math.max(tonumber(task[3]), now))
      end
    end
  end
  return redis.call('ZCOUNT', ticks.key(P, name), ticks.HELD, ticks.HELD) > 0
end
