-- restore: (no record) -> NEW, RETRIABLE_FAILURE, CANCELLED: a live task from an export, with what it had been through
-- KEYS[1]  the partition's record
-- ARGV     now, then per task: id, queue, spec, digest, at, next instant (below 0: it is cancelled), limits ("" = defaults),
--          lambda:ordering key ("" = none), attempts, losses, runs, token counter, error, concurrency ("" = none)
-- RETURNS  per task 1 stored, 0 the id was taken
register('restore', {}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  for i = 2, #args, 14 do
    local id, queue, ordering, attempts = args[i], args[i + 1], args[i + 7], tonumber(args[i + 8])
    if redis.call('EXISTS', task_key(P, id)) == 1 then
      answer[#answer + 1] = 0
    else
      local status = attempts > 0 and 'RETRIABLE_FAILURE' or 'NEW'
      local waits = ordering ~= '' and redis.call('RPUSH', order_key(P, ordering), id) > 1
      if waits then status = 'NEW' end
      local cancelled = tonumber(args[i + 5]) < 0
      local next_at = math.max(tonumber(args[i + 5]), now)
      redis.call('HSET', task_key(P, id), 's', status, 'q', queue, 'spec', args[i + 2], 'd', args[i + 3], 'at', args[i + 4],
        't1', fmt(now), 'a', args[i + 8], 'l', args[i + 9], 'r', args[i + 10], 'c', args[i + 11])
      if args[i + 6] ~= '' then redis.call('HSET', task_key(P, id), 'lim', args[i + 6]) end
      if ordering ~= '' then redis.call('HSET', task_key(P, id), 'k', ordering) end
      if args[i + 12] ~= '' then redis.call('HSET', task_key(P, id), 'err', args[i + 12]) end
      if args[i + 13] ~= '' then
        redis.call('HSET', task_key(P, id), 'kc', args[i + 13])
        redis.call('HSET', queue_key(P, queue), 'keyed', '1')
      end
      redis.call('ZADD', live_key(P, queue, status), waits and '+inf' or fmt(next_at), id)
      if cancelled then
        local limits = args[i + 6] ~= '' and args[i + 6] or nil
        rest(P, AT_ONCE, id, queue, status, 'CANCELLED', now, limits, ordering ~= '' and ordering or nil, nil, false, nil)
      elseif not waits then
        visit_by(P, queue, next_at)
      end
      answer[#answer + 1] = 1
    end
  end
  return answer
end)
