-- retry_tasks: starts tasks afresh, due now. Attempts and losses start again, the token goes on growing, the retention is lifted.
-- MOVES    retry: FATAL_FAILURE, CANCELLED -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, scopes ("" = all; see scopes.lua), then the ids
-- RETURNS  per id {status after it ("" = no such task), 1 retried, the unfinished task that holds its unique key ("" = none): nothing is done,
--          its lambda ("" = no such task)}
register('retry_tasks', {'allow-oom'}, pushing.around(function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer, bound = {}, scopes.read(args[2])
  for i = 3, #args do
    local id = args[i]
    local status, queue, ordering = fields_of(task_key(P, id), 's', 'q', 'k')
    if bound and not (queue and scopes.has(bound, lambda_of(queue))) then status = nil end
    if status == 'FATAL_FAILURE' or status == 'CANCELLED' then
      local holder = moves.start_afresh(P, id, queue, status, ordering, now)
      answer[#answer + 1] = {holder and status or 'NEW', holder and 0 or 1, holder or '', lambda_of(queue)}
    else
      local gone = not status or status == 'TOMBSTONE'
      answer[#answer + 1] = {gone and '' or status, 0, '', gone and '' or lambda_of(queue)}
    end
  end
  return answer
end))
