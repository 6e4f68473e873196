-- open: makes the partition's record where there is none
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), durable, number of partitions
-- RETURNS  the number of partitions on record
--
-- It notes the server too: a server that forgets its last second must not forget with a first claim that it was another one.
register('open', {'allow-oom'}, function(keys, args)
  redis.call('HSETNX', keys[1], 'partitions', args[4])
  redis.call('HSETNX', keys[1], 'created', fmt(instant(args[1])))
  if args[2] ~= '' then redis.call('HSETNX', keys[1], 'server', args[2]) end
  return redis.call('HGET', keys[1], 'partitions')
end)
