-- allow_direct: notes whether clients may be a frontend of their own
-- KEYS[1]  the partition's record
-- ARGV     now, 1 = they may, 0 = they may not
-- RETURNS  1
register('allow_direct', {'allow-oom'}, function(keys, args)
  redis.call('HSET', keys[1], 'direct', args[2])
  return 1
end)
