-- list_capacity: those that have cores
-- KEYS[1]  the registry partition's record
-- ARGV     now
-- RETURNS  names
register('list_capacity', {'no-writes'}, function(keys)
  return redis.call('SMEMBERS', keys[1] .. ':pools')
end)
