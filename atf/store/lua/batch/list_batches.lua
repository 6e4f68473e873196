-- list_batches: a page of the batches whose batch partition this is, newest first
-- KEYS[1]  the partition's record
-- ARGV     now, the batch seen last, if it was one of these ("" = none), no batch that was made after this instant (0 = all), batches at most
-- RETURNS  batch, minus when it was made, ...
register('list_batches', {'no-writes'}, function(keys, args)
  local set, most = keys[1] .. ':batches', tonumber(args[3])
  local rank = args[2] ~= '' and redis.call('ZRANK', set, args[2])
  local start = rank and rank + 1 or most > 0 and redis.call('ZCOUNT', set, '-inf', '(' .. fmt(-most)) or 0
  return redis.call('ZRANGE', set, fmt(start), fmt(start + tonumber(args[4]) - 1), 'WITHSCORES')
end)
