-- hosts: the worker hosts that are alive
-- KEYS[1]  the partition's record
-- ARGV     now, how many at most
-- RETURNS  now, {host, until when it counts as alive, its pool and what it sets aside: "pool=<pool> <lambda>=<until> ...", ...}
register('hosts', {'no-writes'}, function(keys, args)
  local P, now, found = keys[1], instant(args[1]), {}
  local alive = redis.call('ZRANGE', P .. ':hosts', '(' .. fmt(now), '+inf', 'BYSCORE', 'LIMIT', 0, args[2], 'WITHSCORES')
  for i = 1, #alive, 2 do
    found[#found + 1], found[#found + 2] = alive[i], fmt(tonumber(alive[i + 1]))
    found[#found + 1] = redis.call('HGET', P .. ':hosts:say', alive[i]) or ''
  end
  return {fmt(now), found}
end)
