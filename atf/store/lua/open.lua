-- open: makes the partition's record where there is none
-- KEYS[1]  the partition's record
-- ARGV     now, number of partitions
-- RETURNS  the number of partitions on record
register('open', {'allow-oom'}, function(keys, args)
  redis.call('HSETNX', keys[1], 'partitions', args[2])
  redis.call('HSETNX', keys[1], 'created', fmt(instant(args[1])))
  return redis.call('HGET', keys[1], 'partitions')
end)
