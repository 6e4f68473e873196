-- get_capacity: reads the record of a pool's cores, and notes which executors are its members: each stays for a while and is named again
--               before that is over. Where no cores are set for the pool, nothing is written.
-- KEYS[1]  the registry partition's record
-- ARGV     now, pool, version that is known, deal that is known, how long a member stays, members that are here, then their names,
--          then the names of those that have left
-- RETURNS  {} = no cores are set; else now, version, state ("" = as known), deal, groups ("" = as known), membership,
--          1 = the groups were dealt to others than the members or for another number of cores, {the members, where it is so}
register('get_capacity', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local pool, known_version, known_deal, stays, here = unpack(args, 2, 6)
  local key = P .. ':c:' .. pool
  local version, deal, dealt, membership = fields_of(key, 'v', 'deal', 'dealt', 'membership')
  if not version then return {} end
  local members, changed = key .. ':members', 0
  for i = 7, #args do
    if i < 7 + tonumber(here) then
      changed = changed + redis.call('ZADD', members, fmt(now + tonumber(stays)), args[i])
    else
      changed = changed + redis.call('ZREM', members, args[i])
    end
  end
  changed = changed + #liveness.strike_off(members, now)
  membership = membership or '0'
  if changed > 0 then membership = fmt(redis.call('HINCRBY', key, 'membership', changed)) end
  local state = version == known_version and '' or redis.call('HGET', key, 'state')
  local groups = deal and deal ~= known_deal and redis.call('HGET', key, 'groups') or ''
  local stale = dealt ~= membership
  local to_deal = stale and redis.call('ZRANGE', members, 0, -1) or {}
  return {fmt(now), version, state, deal or '0', groups, membership, stale and 1 or 0, to_deal}
end)
