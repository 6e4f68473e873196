-- serve: notes that workers of a pool are alive, for `explain` to tell when there are none
-- KEYS[1]  the partition's record
-- ARGV     now, pool ("" = of no name), how long it counts without being said again
-- RETURNS  1
register('serve', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  for _, gone in ipairs(redis.call('ZRANGE', P .. ':workers', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, 256)) do
    redis.call('ZREM', P .. ':workers', gone)
  end
  redis.call('ZADD', P .. ':workers', fmt(now + tonumber(args[3])), args[2])
  return 1
end)
