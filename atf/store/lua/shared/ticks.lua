-- The live tasks of a job, and what becomes of them when it is deleted, is paused, or goes on. Each call deals with TICKS_PER_CALL of them
-- at most.

-- The live tasks of a job stand in a sorted set, scored by what they are to it:
ticks.ORPHAN = 0  -- a tick that runs, of a job that was deleted; the ticks of one of its name that was made since wait for it as for their own
ticks.TICK = 1
ticks.HELD = 2  -- a tick that the job's pause has met: it waits for the job to go on, or will when its run has failed
ticks.BESIDE = 3  -- a task that somebody had made beside the ticks
ticks.OF = '@'  -- begins the field w of a tick, before the job's name
ticks.BESIDE_OF = '+'  -- the same, of a task that was made beside the ticks
ticks.LAST_RUN = 'j'  -- the field x of a task whose job was deleted while it ran

function ticks.key(P, name) return P .. ':ticks:' .. name end

-- Has a job looked at from `at` on, and wakes the store consumers where that is earlier than any other job. Jobs have an index of
-- their own.
function ticks.look_at_job(P, name, at)
  local first = redis.call('ZRANGE', P .. ':jobs', 0, 0, 'WITHSCORES')
  redis.call('ZADD', P .. ':jobs', fmt(at), name)
  if not first[2] or at < tonumber(first[2]) then redis.call('SPUBLISH', P .. ':notify:due', '') end
end

-- A task of a job is live from now on. The name is listed where its deletion by prefix finds it, also when the job has ended.
function ticks.add(P, name, id, kind)
  redis.call('ZADD', ticks.key(P, name), kind, id)
  redis.call('ZADD', P .. ':ticking', 0, name)
end

-- Stores a task of a job, due at `at`. `more`: fields of its record, each before its value, "" where it has none.
function ticks.store(P, name, kind, id, queue, at, digest, spec, now, more)
  local key, of, entries = task_key(P, id), kind == ticks.TICK and ticks.OF or ticks.BESIDE_OF, nil
  redis.call('HSET', key, 's', 'NEW', 'q', queue, 'at', at, 't1', fmt(now), 'd', digest, 'spec', record.put(P, id, 'spec', spec, true), 'w', of .. name)
  for i = 1, #more, 2 do
    if more[i + 1] ~= '' then
      redis.call('HSET', key, more[i], more[i + 1])
      if more[i] == 'ix' then entries = more[i + 1] end
    end
  end
  ticks.add(P, name, id, kind)
  redis.call('ZADD', live_key(P, queue, 'NEW'), at, id)
  lists.enter(P, writes.AT_ONCE, id, lambda_of(queue), entries, now)
  pushing.due(P, queue, tonumber(at), now)
end

-- Strikes off a job that has no tasks left which could be cancelled.
function ticks.strike_off(P, name)
  if redis.call('ZCOUNT', ticks.key(P, name), ticks.TICK, ticks.BESIDE) == 0 then redis.call('ZREM', P .. ':ticking', name) end
end

-- A task of a job has ended.
function ticks.drop(P, name, id)
  redis.call('ZREM', ticks.key(P, name), id)
  ticks.strike_off(P, name)
end

-- A tick of a job has ended: what waits for that may be due.
function ticks.ended(P, name, id, status, now)
  ticks.drop(P, name, id)
  local generation, next_tick, paused, newest, overlap = fields_of(job_key(P, name), 'g', 'n', 'p', 'task', 'o')
  if not generation then return end
  if newest == id then redis.call('HSET', job_key(P, name), 'out', status) end
  if redis.call('ZCOUNT', ticks.key(P, name), ticks.ORPHAN, ticks.HELD) == 0 then
    redis.call('HSET', job_key(P, name), 'ended', fmt(now))
  elseif overlap ~= 'cancel_running' then  -- else the next of them is to be cancelled
    return
  end
  if next_tick ~= '' and not paused then ticks.look_at_job(P, name, tonumber(next_tick)) end
end

-- Keeps a tick that waits, or is about to, until its job goes on: NEW, RETRIABLE_FAILURE -> the same, never due; ENQUEUED -> NEW, never due.
-- `at`: when it would be due. `held`: see moves.let_go.
function ticks.keep(P, sets, name, id, queue, status, at, held, now)
  redis.call('ZADD', ticks.key(P, name), ticks.HELD, id)
  redis.call('HSET', task_key(P, id), 'hd', fmt(at))
  if status == 'ENQUEUED' then  -- it passes its queue's admission anew
    sets.ZREM(live_key(P, queue, status), id)
    status = 'NEW'
    redis.call('HDEL', task_key(P, id), 'e')
    redis.call('HSET', task_key(P, id), 's', status, MOVED[status], fmt(now))
    moves.let_go(P, id, queue, held, now)
  end
  sets.ZADD(live_key(P, queue, status), '+inf', id)
end

-- The run of a task that somebody watches has not ended it. Where it is a tick, and its job is paused, it does not run again before that goes on.
function ticks.hold(P, sets, id, queue, status, watched, at, held, now)
  if string.sub(watched, 1, 1) ~= ticks.OF then return end
  local name = string.sub(watched, 2)
  if redis.call('HEXISTS', job_key(P, name), 'p') == 1 then ticks.keep(P, sets, name, id, queue, status, at, held, now) end  -- mutant: pause_forgets_retries
end

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
      moves.cancel(P, writes.AT_ONCE, id, now)  -- mutant: delete_leaves_ticks
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
    local status, queue, scheduled_at, gate, held, misfit = fields_of(task_key(P, id), 's', 'q', 'at', 'g', 'h', 'mf')
    redis.call('ZADD', ticks.key(P, name), ticks.HELD, id)
    if gate then  -- it keeps it as well
      redis.call('HSET', task_key(P, id), 'hd', scheduled_at)
    elseif status == 'NEW' or status == 'RETRIABLE_FAILURE' then
      ticks.keep(P, writes.AT_ONCE, name, id, queue, status, tonumber(redis.call('ZSCORE', live_key(P, queue, status), id)), nil, now)
    elseif status == 'ENQUEUED' then
      if misfit then misfits.leave(P, id, queue, misfits.read(misfit)) end
      -- from its own instant on, so that those that stood in the queue come back in their order
      ticks.keep(P, writes.AT_ONCE, name, id, queue, status, math.min(tonumber(scheduled_at), now), held, now)
    end
  end
  return redis.call('ZCOUNT', ticks.key(P, name), ticks.TICK, ticks.TICK) > 0
end

-- Lets ticks go on that a pause has kept: they are due when they would have been. Returns whether there are more.
function ticks.release(P, name, now)
  for _, id in ipairs(redis.call('ZRANGE', ticks.key(P, name), ticks.HELD, ticks.HELD, 'BYSCORE', 'LIMIT', 0, TICKS_PER_CALL)) do
    local status, queue, due_at, gate, waited = fields_of(task_key(P, id), 's', 'q', 'hd', 'g', 'wr')
    redis.call('ZADD', ticks.key(P, name), ticks.TICK, id)
    if due_at then
      redis.call('HDEL', task_key(P, id), 'hd')
      wait_notes.note(P, id, waited, 'g', now)
      if not gate then  -- else that keeps it
        redis.call('ZADD', live_key(P, queue, status), due_at, id)
        due_index.visit_by(P, queue, math.max(tonumber(due_at), now))
      end
    end
  end
  return redis.call('ZCOUNT', ticks.key(P, name), ticks.HELD, ticks.HELD) > 0
end

-- A tick of a job that has not ended, or "": there is none. One whose record somebody has deleted holds up no others.
local function live_tick(P, name, now)
  for _, id in ipairs(redis.call('ZRANGE', ticks.key(P, name), ticks.ORPHAN, ticks.HELD, 'BYSCORE', 'LIMIT', 0, 16)) do
    local status = redis.call('HGET', task_key(P, id), 's')
    if status and status ~= 'TOMBSTONE' and not FINISHED[status] then return id end
    ticks.ended(P, name, id, '', now)
  end
  return ''
end

-- Jobs whose tick is due, for a consumer to say what comes of it; until it has, its peers leave them alone for a while. A job
-- whose tick before this one has not ended yet is passed on where its policy is to `skip` or to `cancel`, and otherwise looked at
-- again when that tick ends, or after a while, should its record have been deleted.
function ticks.due_jobs(P, now, most, answer)
  local bytes = 0
  for _, name in ipairs(redis.call('ZRANGE', beside_key(P, 'jobs'), '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(most))) do
    local generation, next_tick, count, overlap, paused, ended, base = fields_of(job_key(P, name), 'g', 'n', 'k', 'o', 'p', 'ended', 'b')
    if not generation or next_tick == '' or paused then
      redis.call('ZREM', beside_key(P, 'jobs'), name)
    else
      local running = live_tick(P, name, now)
      local waits = running ~= '' and (overlap == 'queue' or overlap == 'cancel_running')  -- mutant: tick_at_once
      redis.call('ZADD', beside_key(P, 'jobs'), fmt(now + (waits and JOB_WAIT or JOB_RETRY)), name)  -- mutant: tick_forgotten
      if not waits or overlap == 'cancel_running' then
        local spec = redis.call('HGET', job_key(P, name), 'spec')
        for _, each in ipairs({name, generation, next_tick, count, running, ended or '', base, spec}) do answer[#answer + 1] = each end
        bytes = bytes + #spec
        if bytes > JOBS_BYTES then break end
      end
    end
  end
end
