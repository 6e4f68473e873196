-- retime: puts another heartbeat timeout on record
-- KEYS[1]  the partition's record
-- ARGV     now, heartbeat timeout
-- RETURNS  1
register('retime', {'allow-oom'}, function(keys, args)
  redis.call('HSET', keys[1], 'timeout', args[2])
  return 1
end)
