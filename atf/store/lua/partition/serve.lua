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

-- Adds a digest to those that are known of a lambda, or takes one that nobody runs any more away.
local function note_signature(P, said, add)
  local of, digest = string.match(said, '^(%S* %S+) (%S+)$')
  if not of then return end
  local kept = {}
  for each in string.gmatch(redis.call('HGET', P .. ':signatures', of) or '', '%S+') do
    if each ~= digest then kept[#kept + 1] = each end
  end
  if add then kept[#kept + 1] = digest end
  while #kept > misfits.KEPT do table.remove(kept, 1) end
  if #kept > 0 then
    redis.call('HSET', P .. ':signatures', of, table.concat(kept, ' '))
  else
    redis.call('HDEL', P .. ':signatures', of)
  end
end

register('serve', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local pool, lasts, host, executors, goes_on, why, quarantined = unpack(args, 2, 8)
  local workers, served = P .. ':workers', P .. ':served'
  local till, last = fmt(now + tonumber(lasts)), 8 + 2 * tonumber(quarantined)
  liveness.strike_off(workers, now)
  for _, gone in ipairs(liveness.strike_off(served, now)) do note_signature(P, gone, false) end
  if why == '' then
    if #args <= last and executors ~= '0' then redis.call('ZADD', served, till, pool .. ' *') end
    for i = last + 1, #args do
      local said = pool .. ' ' .. args[i]
      if redis.call('ZADD', served, till, said) == 1 then note_signature(P, said, true) end
    end
    redis.call('ZADD', workers, till, pool)
  end
  if host == '' then return 1 end
  for _, gone in ipairs(liveness.strike_off(P .. ':hosts', now)) do
    for _, hash in ipairs({':hosts:say', ':hosts:run', ':hosts:why'}) do redis.call('HDEL', P .. hash, gone) end
  end
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
