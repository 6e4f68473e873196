-- serve: notes that workers of a pool are alive, and which lambdas their host sets aside, for `explain` and for people
-- KEYS[1]  the partition's record
-- ARGV     now, pool ("" = of no name), how long it counts without being said again, the host ("" = of no name),
--          how many lambdas it sets aside ("*" = all) and per such: name, for how long from now (0 = it is on trial),
--          then names of lambdas that it serves
-- RETURNS  1
register('serve', {'allow-oom'}, function(keys, args)
  local P, now, host = keys[1], instant(args[1]), args[4] or ''
  for _, gone in ipairs(redis.call('ZRANGE', P .. ':workers', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, 256)) do
    redis.call('ZREM', P .. ':workers', gone)
  end
  redis.call('ZADD', P .. ':workers', fmt(now + tonumber(args[3])), args[2])
  if host == '' then return 1 end
  for _, gone in ipairs(redis.call('ZRANGE', P .. ':hosts', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, 256)) do
    redis.call('ZREM', P .. ':hosts', gone)
    redis.call('HDEL', P .. ':hosts:say', gone)
  end
  local say = {'pool=' .. args[2]}
  local last = 5 + 2 * tonumber(args[5])
  for i = 6, last, 2 do say[#say + 1] = args[i] .. '=' .. fmt(now + tonumber(args[i + 1])) end
  redis.call('ZADD', P .. ':hosts', fmt(now + tonumber(args[3])), host)
  redis.call('HSET', P .. ':hosts:say', host, table.concat(say, ' '))
  for i = last + 1, #args do placement.join_spread(P, args[i], host, now) end
  return 1
end)
