-- restore: (no record) -> NEW, RETRIABLE_FAILURE, CANCELLED: a live task from an export, with what it had been through;
--          (no record) -> FATAL_FAILURE: one at which its ordering key has stopped, and stops again
-- KEYS[1]  the partition's record
-- ARGV     now, then per task: id, queue, spec ("" = the key's stop alone), digest, at, next instant (-1: it is cancelled; below that:
--          its key has stopped at it, since then), limits ("" = defaults), lambda:ordering key ("" = none), attempts, losses, runs, token counter, error, concurrency ("" = none),
--          ends of leases in a row that counted nothing ("" = none), 1 = it runs alone,
--          the job whose task it is, behind @ where it is a tick, behind + where it was made beside its ticks ("" = none),
--          lambda:unique key whose open window is its own ("" = none)
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

register('restore', {}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  for i = 2, #args, 18 do
    local id, queue, ordering, attempts = args[i], args[i + 1], args[i + 7], tonumber(args[i + 8])
    local next_at = tonumber(args[i + 5])
    local stopped = next_at < -1
    if redis.call('EXISTS', task_key(P, id)) == 1 then
      answer[#answer + 1] = 0
    elseif stopped and args[i + 2] == '' then
      stop_at(P, ordering, id, queue, -next_at)
      answer[#answer + 1] = 1
    else
      local status = attempts > 0 and 'RETRIABLE_FAILURE' or 'NEW'
      local waits = ordering ~= '' and not stopped and redis.call('RPUSH', order_key(P, ordering), id) > 1
      if waits then status = 'NEW' end
      local cancelled = next_at == -1
      next_at = math.max(next_at, now)
      redis.call('HSET', task_key(P, id), 's', status, 'q', queue, 'spec', args[i + 2], 'd', args[i + 3], 'at', args[i + 4],
        't1', fmt(now), 'a', args[i + 8], 'l', args[i + 9], 'r', args[i + 10], 'c', args[i + 11])
      if args[i + 6] ~= '' then redis.call('HSET', task_key(P, id), 'lim', args[i + 6]) end
      if ordering ~= '' then redis.call('HSET', task_key(P, id), 'k', ordering) end
      if args[i + 12] ~= '' then redis.call('HSET', task_key(P, id), 'err', args[i + 12]) end
      if args[i + 14] ~= '' then redis.call('HSET', task_key(P, id), 'y', args[i + 14]) end
      if args[i + 15] == '1' then redis.call('HSET', task_key(P, id), 'z', '1') end
      if args[i + 13] ~= '' then
        redis.call('HSET', task_key(P, id), 'kc', args[i + 13])
        redis.call('HSET', queue_key(P, queue), 'keyed', '1')
      end
      if args[i + 17] ~= '' then redis.call('HSET', task_key(P, id), 'uk', args[i + 17]) end
      redis.call('ZADD', live_key(P, queue, status), waits and '+inf' or fmt(next_at), id)
      local limits = args[i + 6] ~= '' and args[i + 6] or nil
      if stopped then
        moves.end_task(P, writes.AT_ONCE, id, queue, status, 'FATAL_FAILURE', now, limits, nil, nil, false, nil)
        stop_at(P, ordering, id, queue, -tonumber(args[i + 5]))
      elseif cancelled then
        moves.end_task(P, writes.AT_ONCE, id, queue, status, 'CANCELLED', now, limits, ordering ~= '' and ordering or nil, nil, false, nil)
      elseif not waits then
        if args[i + 16] ~= '' then join_job(P, id, queue, status, args[i + 16], next_at, now) end
        due_index.visit_by(P, queue, next_at)
      end
      answer[#answer + 1] = 1
    end
  end
  return answer
end)
