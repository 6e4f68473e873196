-- note_error: notes why a callback of a batch was not made
-- KEYS[1]  the partition's record, of the batch's home
-- ARGV     now, batch, why
-- RETURNS  1; 0 where there is no such batch
register('note_error', {'allow-oom'}, function(keys, args)
  local key = batch_key(keys[1], args[2])
  if redis.call('HEXISTS', key, 'v') == 0 then return 0 end
  redis.call('HSET', key, 'err', args[3])
  return 1
end)
