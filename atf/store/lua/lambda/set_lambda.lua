-- set_lambda: what an operator sets of a lambda, instead of what its code says; owed to the other partitions
-- KEYS[1]  the home partition's record
-- ARGV     now, number of this partition, number of partitions, name, the spec it has, the same in base64, what is set
--          ("" = nothing), settings to set instead
-- RETURNS  1 done, 0 no such lambda, 2 its spec or what is set is another by now
register('set_lambda', {'allow-oom'}, function(keys, args)
  local P, now, name = keys[1], instant(args[1]), args[4]
  local known = redis.call('HMGET', lambda_key(P, name), 'spec', 'code', 'set')
  if not known[1] then return 0 end
  if known[1] ~= args[5] or (known[3] or '') ~= args[7] then return 2 end
  redis.call('HSET', lambda_key(P, name), 'set', args[8])
  registry.write(P, name, args[6], known[2], args[8], nil, tonumber(args[2]), tonumber(args[3]), now)
  return 1
end)
