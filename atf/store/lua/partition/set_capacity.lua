-- set_capacity: replaces the record of a pool's cores, if it is the one that the caller has read
-- KEYS[1]  the registry partition's record
-- ARGV     now, pool, version that was read (0 = there was none), state ("" = none any more), groups ("" = as they are),
--          membership that they were dealt to ("" = as it was, -1 = they have to be dealt anew)
-- RETURNS  its version now; 0 = another has written it
register('set_capacity', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local pool, read, state, groups, dealt = unpack(args, 2)
  local key = P .. ':c:' .. pool
  local before = redis.call('HGET', key, 'v') or '0'
  if before ~= read then return '0' end  -- mutant: cores_overwritten
  local version = fmt(math.max(tonumber(before) + 1, now))  -- so that a store that has forgotten some gives none of them again
  if state == '' then
    redis.call('DEL', key, key .. ':members')
    redis.call('SREM', P .. ':pools', pool)
  else
    redis.call('SADD', P .. ':pools', pool)
    redis.call('HSET', key, 'v', version, 'state', state)
    if groups ~= '' then redis.call('HSET', key, 'groups', groups, 'deal', version) end
    if dealt ~= '' then redis.call('HSET', key, 'dealt', dealt) end
  end
  redis.call('SPUBLISH', P .. ':notify:ready', '%' .. pool)  -- no queue has such a name
  return version
end)
