-- close_batch: says of how many items a batch is made, extensions aside: it ends with the last of them
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, items
-- RETURNS  1 said now, 0 it was said before, or the batch was cancelled or is there no more
register('close_batch', {'allow-oom'}, function(keys, args)
  local P, now, batch = keys[1], instant(args[1]), args[2]
  local key = batches.key(P, batch)
  local version, main, cancelled, deleting, next_number = fields_of(key, 'v', 'main', 'cancelled', 'deleting', 'next')
  if not version or main or cancelled or deleting then return 0 end
  redis.call('HSET', key, 'main', args[3], 'sealed', '1', 'next', next_number or args[3], 'prefix', args[3])
  grown(key, 'v', now)
  batches.sync_parts(P, batch, now)
  return 1
end)
