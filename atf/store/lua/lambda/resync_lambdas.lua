-- resync_lambdas: in the registry partition: says again to the other partitions what holds of lambdas. Idempotent.
-- KEYS[1]  the registry partition's record
-- ARGV     now, number of partitions, name after which to go on ("" = from the first), and then one name,
--          where it is that lambda alone, and of which versions of its settings and gates who asks knows, where these seemed newer
-- RETURNS  how many lambdas it wrote for the others; those that are left follow
--
-- After a server lost its last second a partition may not know any more what the registry partition has struck off as acknowledged. Or it may have been
-- acknowledged since what the registry partition has forgotten, a pause that nobody can see and lift. So each partition gets them under a new version. Versions grow
-- with the server's clock. Where that was set back before it forgot, what it forgot is newer: so whoever knows of such says of which
-- version, and the registry partition goes on behind that.

local STEP = 32  -- lambdas of one call

-- Whether others know of newer versions of a lambda than the registry partition. Then its versions go on behind those.
local function go_on_behind(P, name, settings_there, gates_there)
  local settings, gates = registry.versions_of(P, name)
  if settings_there <= settings and gates_there <= gates then return false end
  local version = tonumber(redis.call('HGET', P, 'lambda_version') or 0)
  redis.call('HSET', P, 'lambda_version', fmt(math.max(version, settings_there, gates_there)))
  return true
end

register('resync_lambdas', {'allow-oom'}, function(keys, args)
  local P, now, partitions, after = keys[1], instant(args[1]), tonumber(args[2]), args[3]
  local one = args[4] and args[4] ~= '' and args[4]
  if args[5] and not go_on_behind(P, one, tonumber(args[5]), tonumber(args[6])) then return 0 end
  local names, count = one and {one} or redis.call('SMEMBERS', P .. ':lambdas'), 0
  table.sort(names)
  for _, name in ipairs(names) do
    if count == STEP then
      outbox.add(P, number_of(P), '0' .. outbox.words('resync', after), now)
      break
    end
    if name > after then
      local spec, code, set = fields_of(lambda_key(P, name), 'spec', 'code', 'set')
      if spec then
        local gates = table.concat(gate_records.lines(P, name, now), ';')
        registry.write(P, name, spec, code, set, gates, partitions, now)
      end
      count, after = count + 1, name
    end
  end
  return count
end)
