-- renew_hosts: notes that worker hosts of a pool live, so that what `serve` said of each holds for longer
-- KEYS[1]  the partition's record
-- ARGV     now, pool ("" = of no name), how long it counts, 1 = workers are alive there or 0 = none is, how many hosts and these, then lambdas that they
--          serve, as of `serve` ("*" = some did not say)
-- RETURNS  per host 0 it is not known here: say all of it anew; 1 it is; 2 it is, and is to drain: said in the registry partition alone

register('renew_hosts', {'allow-oom'}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  local pool, lasts, alive, hosts = unpack(args, 2, 5)
  local till = fmt(now + tonumber(lasts))
  liveness.strike_off_workers(P, now)
  liveness.strike_off_hosts(P, now)
  for i = 6, 5 + tonumber(hosts) do
    if tonumber(redis.call('ZSCORE', P .. ':hosts', args[i]) or 0) <= now then
      answer[#answer + 1] = 0
    else
      redis.call('ZADD', P .. ':hosts', till, args[i])
      answer[#answer + 1] = liveness.drains_until(P, args[i], now) and 2 or 1
    end
  end
  if alive == '1' then liveness.note_served(P, pool, {unpack(args, 6 + tonumber(hosts))}, till) end
  return answer
end)
