-- delete_lambda: forgets a lambda in the registry partition, and adds that to the outbox for the others
-- KEYS[1]  the registry partition's record
-- ARGV     now, number of partitions, name
-- RETURNS  1 forgotten, 0 no such lambda, 2 the outbox still has a change of the lambda, which could come to another partition after its end
register('delete_lambda', {'allow-oom'}, function(keys, args)
  local P, now, name = keys[1], instant(args[1]), args[3]
  if redis.call('EXISTS', lambda_key(P, name)) == 0 then return 0 end
  local records = redis.call('HGETALL', P .. ':outbox')
  for i = 2, #records, 2 do
    if string.find(records[i], '","' .. name .. '"', 1, true) then return 2 end
  end
  local version = grown(P, 'lambda_version', now)
  registry.forget(P, name)
  outbox.add_for_others(P, tonumber(args[2]), version .. outbox.words('forget', name), now)
  return 1
end)
