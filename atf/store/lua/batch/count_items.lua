-- count_items: how many items of a batch lie in a partition, by what they are counted as
-- KEYS[1]  the partition's record
-- ARGV     now, batch
-- RETURNS  items, created, in progress, done, failed, failed for good, cancelled, 1 = some have been started
register('count_items', {'no-writes'}, function(keys, args)
  return batch_parts.counted(keys[1], args[2])
end)
