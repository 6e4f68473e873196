-- register: writes a lambda's record in its home partition and owes it to the others
-- KEYS[1]  the home partition's record
-- ARGV     now, number of this partition, number of partitions, then per lambda: name, spec, queue limit, enqueue timeout,
--          body of the outbox records
-- RETURNS  lambdas that changed
register('register', {}, function(keys, args)
  local P, now, home, partitions = keys[1], instant(args[1]), tonumber(args[2]), tonumber(args[3])
  local changed = 0
  for i = 4, #args, 5 do
    local key = lambda_key(P, args[i])
    local known = redis.call('HMGET', key, 'spec', 'limit', 'timeout')
    if known[1] ~= args[i + 1] or known[2] ~= args[i + 2] or known[3] ~= args[i + 3] then
      local version = fmt(redis.call('HINCRBY', P, 'lambda_version', 1))
      redis.call('SADD', P .. ':lambdas', args[i])
      redis.call('HSET', key, 'spec', args[i + 1], 'limit', args[i + 2], 'timeout', args[i + 3], 'rv', version)
      for target = 0, partitions - 1 do
        if target ~= home then owe(P, target, version .. '\n' .. args[i + 4], now) end
      end
      changed = changed + 1
    end
  end
  return changed
end)
