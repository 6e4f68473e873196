-- cancel: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; CLAIMED, PROCESSING keep their state and are flagged
-- KEYS[1]  the partition's record
-- ARGV     now, then the ids
-- RETURNS  per id {status after it ("" = no such task), 1 cancelled now or before, 1 flagged}
register('cancel', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer = {}
  for i = 2, #args do
    local id = args[i]
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'lim', 'k', 'w', 'h', 'g')
    local status = task[1]
    if not status or status == 'TOMBSTONE' then
      answer[#answer + 1] = {'', 0, 0}
    elseif FINISHED[status] then
      answer[#answer + 1] = {status, status == 'CANCELLED' and 1 or 0, 0}
    elseif status == 'CLAIMED' or status == 'PROCESSING' then
      redis.call('HSET', task_key(P, id), 'x', '1')
      answer[#answer + 1] = {status, 0, 1}
    else
      if task[7] then  -- a gate has parked it
        redis.call('ZREM', parked_key(P, lambda_of(task[2]), task[7]), id)
        redis.call('HDEL', task_key(P, id), 'g')
      end
      rest(P, AT_ONCE, id, task[2], status, 'CANCELLED', now, task[3], task[4], task[5], false, task[6])
      answer[#answer + 1] = {'CANCELLED', 1, 0}
    end
  end
  return answer
end)
