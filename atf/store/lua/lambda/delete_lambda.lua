-- delete_lambda: forgets a lambda in the registry partition, and adds that to the outbox for the others
-- KEYS[1]  the registry partition's record
-- ARGV     now, number of this partition, number of partitions, name
-- RETURNS  1 forgotten, 0 no such lambda, 2 the outbox still has a change of the lambda, which could come to another partition after its end
register('delete_lambda', {'allow-oom'}, function(keys, args)
  local P, now, home, name = keys[1], instant(args[1]), tonumber(args[2]), args[4]
  if redis.call('EXISTS', lambda_key(P, name)) == 0 then return 0 end
  local records = redis.call('HGETALL', P .. ':outbox')
  for i = 2, #records, 2 do
    if string.find(records[i], '","' .. name .. '"', 1, true) then return 2 end
  end
  local body = grown(P, 'lambda_version', now) .. '\n["forget","' .. name .. '"]'
  registry.forget(P, name)
  for target = 0, tonumber(args[3]) - 1 do
    if target ~= home then outbox.add(P, target, body, now) end
  end
  return 1
end)
