-- list_batches: a page of the batches that are at home here, newest first
-- KEYS[1]  the partition's record
-- ARGV     now, the batch seen last ("" = from the start), batches at most
-- RETURNS  batches
register('list_batches', {'no-writes'}, function(keys, args)
  local set, start = keys[1] .. ':batches', 0
  if args[2] ~= '' then
    local rank = redis.call('ZRANK', set, args[2])
    if not rank then return {} end
    start = rank + 1
  end
  return redis.call('ZRANGE', set, fmt(start), fmt(start + tonumber(args[3]) - 1))
end)
