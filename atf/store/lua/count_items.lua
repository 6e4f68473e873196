-- count_items: how many items of a batch lie in a partition, by what they are counted as
-- KEYS[1]  the partition's record
-- ARGV     now, batch
-- RETURNS  items, created, in progress, done, failed, failed for good, cancelled, 1 = some have been started
register('count_items', {'no-writes'}, function(keys, args)
  local counts = redis.call('HMGET', part_key(keys[1], args[2]), 'n', 'c0', 'c1', 'c100', 'c-1', 'c-2', 'c-3', 'begun')
  for i = 1, #counts do counts[i] = tonumber(counts[i] or 0) end
  return counts
end)
