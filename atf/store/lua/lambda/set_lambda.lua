-- set_lambda: what an operator sets of a lambda, instead of what its code says; it is added to the outbox for the other partitions
-- KEYS[1]  the registry partition's record
-- ARGV     now, number of partitions, name, the spec it has in base64, what is set ("" = nothing), settings to set
--          instead
-- RETURNS  1 done, 0 no such lambda, 2 its spec or what is set is another by now
register('set_lambda', {'allow-oom'}, function(keys, args)
  local P, now, name = keys[1], instant(args[1]), args[3]
  local spec, code, set = fields_of(lambda_key(P, name), 'spec', 'code', 'set')
  if not spec then return 0 end
  if spec ~= args[4] or (set or '') ~= args[5] then return 2 end
  redis.call('HSET', lambda_key(P, name), 'set', args[6])
  registry.write(P, name, spec, code, args[6], nil, tonumber(args[2]), now)
  return 1
end)
