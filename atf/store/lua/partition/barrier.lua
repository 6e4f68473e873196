-- barrier: a write that changes nothing of a task
-- KEYS[1]  the partition's record
-- ARGV     now
-- RETURNS  1
--
-- Who waits for a disk or a replica waits for what was last written over the same connection. After a repeated call, which
-- writes nothing, this is it.
register('barrier', {'allow-oom'}, function(keys, args)
  redis.call('HINCRBY', keys[1], 'barrier', 1)
  return 1
end)
