-- serve: notes that workers of a pool are alive, what they run, and which lambdas their host quarantines, for `explain_task` and for people
-- KEYS[1]  the partition's record
-- ARGV     now, pool ("" = of no name), how long it counts without being said again, the host ("" = of no name), how many executors it has ("" = it does not say),
--          1 = what follows goes on a list of lambdas that another call began, why no worker can start on the host ("" = they can; "=" = they start,
--          and a reason said before holds; unless "", none is alive there), how many lambdas it quarantines ("*" = all) and per such: name, for how long from now (0 = it is on trial),
--          then lambdas that it serves, each with the digest of the signature behind a space where it was said, and once per such digest
-- RETURNS  1, or 2 where the host is to drain: said in the registry partition alone
--
-- What workers run stands as "<pool> <lambda>", or "<pool> <lambda> <digest>", until when; which digests there are, in a hash beside it.
-- "<pool> *" says until when that may not be all: somebody did not say what it runs.

register('serve', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local pool, lasts, host, executors, goes_on, why, quarantined = unpack(args, 2, 8)
  local till, last = fmt(now + tonumber(lasts)), 8 + 2 * tonumber(quarantined)
  liveness.strike_off_workers(P, now)
  if why == '' then
    if #args <= last and executors ~= '0' then liveness.note_served(P, pool, {'*'}, till) end
    liveness.note_served(P, pool, {unpack(args, last + 1)}, till)
  end
  if host == '' then return 1 end
  liveness.strike_off_hosts(P, now)
  local say = {'pool=' .. pool, 'executors=' .. (executors ~= '' and executors or '0')}
  for i = 9, last, 2 do say[#say + 1] = args[i] .. '=' .. fmt(now + tonumber(args[i + 1])) end
  redis.call('HSET', P .. ':hosts:say', host, table.concat(say, ' '))
  if why == '=' then
    if redis.call('HEXISTS', P .. ':hosts:why', host) == 0 then redis.call('HSET', P .. ':hosts:why', host, why) end
    redis.call('ZADD', P .. ':hosts', 'GT', till, host)  -- what holds still may do so for longer
  else
    if why == '' then redis.call('HDEL', P .. ':hosts:why', host) else redis.call('HSET', P .. ':hosts:why', host, why) end  -- mutant: reason_stays
    redis.call('ZADD', P .. ':hosts', till, host)
  end
  local begun = goes_on == '1' and redis.call('HGET', P .. ':hosts:run', host) or ' '
  redis.call('HSET', P .. ':hosts:run', host, begun .. table.concat(args, ' ', last + 1) .. ' ')
  for i = last + 1, #args do placement.join_spread(P, string.match(args[i], '^%S+'), host, now) end
  return liveness.drains_until(P, host, now) and 2 or 1
end)
