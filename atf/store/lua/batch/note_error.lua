-- note_error: notes why a callback of a batch was not made, or the batch itself, a link of a chain
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, why, 1 = the batch itself
-- RETURNS  1; 0 where there is no such batch
register('note_error', {'allow-oom'}, function(keys, args)
  local key = batches.key(keys[1], args[2])
  if redis.call('HEXISTS', key, 'v') == 0 then return 0 end
  redis.call('HSET', key, 'err', args[3])
  if args[4] == '1' then redis.call('HSET', key, 'unmade', '1') end
  return 1
end)
