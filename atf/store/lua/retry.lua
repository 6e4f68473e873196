-- retry: FATAL_FAILURE, CANCELLED -> NEW, due now. Attempts and losses start again, the token goes on growing, the retention is lifted.
-- KEYS[1]  the partition's record
-- ARGV     now, then the ids
-- RETURNS  per id {status after it ("" = no such task), 1 retried}
register('retry', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer = {}
  for i = 2, #args do
    local id = args[i]
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'k')
    local status = task[1]
    if status == 'FATAL_FAILURE' or status == 'CANCELLED' then
      local waits = task[3] and redis.call('RPUSH', order_key(P, task[3]), id) > 1
      redis.call('ZREM', done_key(P, lambda_of(task[2]), status), id)
      redis.call('HDEL', task_key(P, id), 'a', 'l', 'err', 'f', 'p', 'e', 'z')
      redis.call('HSET', task_key(P, id), 's', 'NEW', 'at', fmt(now), 't1', fmt(now))
      redis.call('ZADD', live_key(P, task[2], 'NEW'), waits and '+inf' or fmt(now), id)
      if not waits then visit_by(P, task[2], now) end
      answer[#answer + 1] = {'NEW', 1}
    else
      answer[#answer + 1] = {(not status or status == 'TOMBSTONE') and '' or status, 0}
    end
  end
  return answer
end)
