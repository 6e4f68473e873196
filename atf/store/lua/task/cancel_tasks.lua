-- cancel_tasks: cancels tasks that have not started, and flags those that run
-- MOVES    cancel: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; cancel a running task: CLAIMED, PROCESSING
-- KEYS[1]  the partition's record
-- ARGV     now, then the ids
-- RETURNS  per id {status after it ("" = no such task), 1 cancelled now or before, 1 flagged, its lambda ("" = no such task)}
register('cancel_tasks', {'allow-oom'}, pushing.around(function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer = {}
  for i = 2, #args do
    local queue = redis.call('HGET', task_key(P, args[i]), 'q')
    local done = moves.cancel(P, writes.AT_ONCE, args[i], now)
    done[4] = done[1] ~= '' and lambda_of(queue) or ''
    answer[#answer + 1] = done
  end
  return answer
end))
