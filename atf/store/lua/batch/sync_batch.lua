-- sync_batch: gives a partition what the batch partition knows, and goes on with what is to be done to its items, a step at a time
-- MOVES    cancel: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; cancel a running task: CLAIMED, PROCESSING;
--          retry: FATAL_FAILURE -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, batch, number of its batch partition, version, 1 = no more items are to come, version of the walk, the walk ("" = none)
-- RETURNS  1 where the walk is to go on: the same call again; else 0
register('sync_batch', {'allow-oom'}, function(keys, args)
  return batch_parts.sync(keys[1], args[2], args[3], args[4], args[5], args[6], args[7], instant(args[1]))
end)
