-- cancel_tasks: cancels tasks that have not started, and flags those that run
-- MOVES    cancel: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; cancel a running task: CLAIMED, PROCESSING
-- KEYS[1]  the partition's record
-- ARGV     now, scopes ("" = all; see scopes.lua), then the ids
-- RETURNS  per id {status after it ("" = no such task), 1 cancelled now or before, 1 flagged, its lambda ("" = no such task)}
register('cancel_tasks', {'allow-oom'}, pushing.around(function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer, bound = {}, scopes.read(args[2])
  for i = 3, #args do
    local queue = redis.call('HGET', task_key(P, args[i]), 'q')
    if bound and not (queue and scopes.has(bound, lambda_of(queue))) then
      answer[#answer + 1] = {'', 0, 0, ''}
    else
      local done = moves.cancel(P, writes.AT_ONCE, args[i], now)
      done[4] = done[1] ~= '' and lambda_of(queue) or ''
      answer[#answer + 1] = done
    end
  end
  return answer
end))
