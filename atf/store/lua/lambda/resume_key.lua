-- resume_key: a stopped ordering key goes on with the task that stopped it, due now, as by `retry_tasks`
-- MOVES    retry: FATAL_FAILURE -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, lambda, key, the task that stopped it ("" = whichever)
-- RETURNS  what, that task: 0 it has not stopped, 1 the task runs again, 2 its record is gone, or it has been retried: what is behind
--          it runs, 3 it has stopped at another one, 4 that task holds the unique key of the one that stopped it
register('resume_key', {'allow-oom'}, function(keys, args)
  local P, now, name = keys[1], instant(args[1]), args[2]
  local k, id = ordering_keys.stopped_at(P, name, args[3])
  if not k then return {0, ''} end
  if args[4] ~= '' and args[4] ~= id then return {3, id} end
  local status, queue = fields_of(task_key(P, id), 's', 'q')
  if status == 'FATAL_FAILURE' then
    local holder = moves.start_afresh(P, id, queue, status, k, now)
    return holder and {4, holder} or {1, id}
  end
  ordering_keys.pass_over(P, name, k, now)
  return {2, id}
end)
