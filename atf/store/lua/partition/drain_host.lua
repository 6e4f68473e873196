-- drain_host: has a worker host drain, or ends that; its controller hears of it with what it says next (serve.lua), and a notification makes that soon
-- KEYS[1]  the registry partition's record
-- ARGV     now, the host, 1 drain or 0 take tasks again, how long (0 = until that is ended), how long a host without an end that is gone is remembered
-- RETURNS  1 done, 0 it did not drain
register('drain_host', {'allow-oom'}, function(keys, args)
  local P, now, host = keys[1], instant(args[1]), args[2]
  local drains, done = P .. ':hosts:drain', 1
  local all = redis.call('HGETALL', drains)
  for i = 1, #all, 2 do
    local ends, since = string.match(all[i + 1], '^(%d+) (%d+)$')
    local over = ends ~= '0' and tonumber(ends) <= now
    local forgotten = tonumber(since) + tonumber(args[5]) <= now and not redis.call('ZSCORE', P .. ':hosts', all[i])
    if over or ends == '0' and forgotten then redis.call('HDEL', drains, all[i]) end
  end
  if args[3] == '1' then
    local ends = args[4] == '0' and '0' or fmt(now + tonumber(args[4]))
    redis.call('HSET', drains, host, ends .. ' ' .. fmt(now))
  else
    done = redis.call('HDEL', drains, host)
  end
  redis.call('SPUBLISH', P .. ':notify:ready', '&' .. host)  -- no queue has such a name
  return done
end)
