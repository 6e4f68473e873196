-- skip_key: a stopped ordering key goes on with what is behind the task that stopped it
-- KEYS[1]  the partition's record
-- ARGV     now, lambda, key, the task that stopped it ("" = whichever)
-- RETURNS  what, that task: 0 it has not stopped, 1 done, 3 it has stopped at another one
register('skip_key', {'allow-oom'}, function(keys, args)
  local P, now, name = keys[1], instant(args[1]), args[2]
  local k, id = ordering_keys.stopped_at(P, name, args[3])
  if not k then return {0, ''} end
  if args[4] ~= '' and args[4] ~= id then return {3, id} end
  ordering_keys.pass_over(P, name, k, now)
  return {1, id}
end)
