-- restore: (no record) -> NEW, RETRIABLE_FAILURE, CANCELLED: a live task from an export, with what it had been through;
--          (no record) -> FATAL_FAILURE: one at which its ordering key has stopped, and stops again
-- KEYS[1]  the partition's record
-- ARGV     now, then per task: id, queue, next instant (-1: it is cancelled; below that: its key has stopped at it, since then), the job
--          whose task it is, behind @ where it is a tick, behind + where it was made beside its ticks ("" = none), number of the arguments
--          that follow: the fields of its record, each behind its name (spec "" = the key's stop alone)
-- RETURNS  per task 1 stored, 0 the id was taken

-- A key that has tasks already goes on as it does.
local function stop_at(P, ordering, id, queue, since)
  if redis.call('EXISTS', order_key(P, ordering)) == 1 then return end
  redis.call('RPUSH', order_key(P, ordering), ordering_keys.STOPPED .. id)
  redis.call('ZADD', stops_key(P, lambda_of(queue)), fmt(since), ordering)
end

-- A live task of a job: what happens to that from now on concerns it.
local function join_job(P, id, queue, status, job, at, now)
  local name = string.sub(job, 2)
  redis.call('HSET', task_key(P, id), 'w', job)
  ticks.add(P, name, id, string.sub(job, 1, 1) == ticks.OF and ticks.TICK or ticks.BESIDE)
  ticks.hold(P, writes.AT_ONCE, id, queue, status, job, at, nil, now)
end

-- Stores a task with the fields that it had, and has it take its place. Where its ordering key has stopped at it, it has failed.
local function put(P, id, queue, next_at, job, fields, now, ...)
  local stopped = next_at < -1
  local status = tonumber(fields.a) > 0 and 'RETRIABLE_FAILURE' or 'NEW'
  local waits = fields.k and not stopped and redis.call('RPUSH', order_key(P, fields.k), id) > 1
  if waits then status = 'NEW' end
  local at = math.max(next_at, now)
  redis.call('HSET', task_key(P, id), 's', status, 'q', queue, 't1', fmt(now), ...)
  if fields.kc then redis.call('HSET', queue_key(P, queue), 'keyed', '1') end
  redis.call('ZADD', live_key(P, queue, status), waits and '+inf' or fmt(at), id)
  lists.enter(P, writes.AT_ONCE, id, lambda_of(queue), fields.ix, now)
  if stopped then
    moves.end_task(P, writes.AT_ONCE, {id = id, queue = queue, status = status, limits = fields.lim}, 'FATAL_FAILURE', now)
    stop_at(P, fields.k, id, queue, -next_at)
  elseif next_at == -1 then
    moves.end_task(P, writes.AT_ONCE, moves.task(P, id), 'CANCELLED', now)
  elseif waits then
    due_index.wait(P, writes.AT_ONCE, queue)
  else
    if job ~= '' then join_job(P, id, queue, status, job, at, now) end
    due_index.visit_by(P, queue, at)
  end
end

register('restore', {}, function(keys, args)
  local P, now, answer, i = keys[1], instant(args[1]), {}, 2
  while i <= #args do
    local id, queue, next_at, job, count = args[i], args[i + 1], tonumber(args[i + 2]), args[i + 3], tonumber(args[i + 4])
    local fields = fields_given(args, i + 5, count)
    local taken = redis.call('EXISTS', task_key(P, id)) == 1
    if not taken and next_at < -1 and fields.spec == '' then
      stop_at(P, fields.k, id, queue, -next_at)
    elseif not taken then
      for at = i + 5, i + 4 + count, 2 do
        if record.FIELDS[args[at]] then args[at + 1] = record.put(P, id, args[at], args[at + 1]) end
      end
      put(P, id, queue, next_at, job, fields, now, unpack(args, i + 5, i + 4 + count))
    end
    answer[#answer + 1] = taken and 0 or 1
    i = i + 5 + count
  end
  return answer
end)
