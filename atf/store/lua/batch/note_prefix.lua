-- note_prefix: notes that the items of a batch with smaller numbers than this are stored
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, number
-- RETURNS  1; 0 where there is no such batch
register('note_prefix', {'allow-oom'}, function(keys, args)
  local key = batches.key(keys[1], args[2])
  local version, prefix = fields_of(key, 'v', 'prefix')
  if not version then return 0 end
  if tonumber(args[3]) > tonumber(prefix or 0) then redis.call('HSET', key, 'prefix', args[3]) end
  return 1
end)
