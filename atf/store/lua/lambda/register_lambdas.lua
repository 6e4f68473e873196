-- register_lambdas: writes a lambda's record in its home partition and owes it to the others. What an operator has set stays set.
-- KEYS[1]  the home partition's record
-- ARGV     now, number of this partition, number of partitions, then per lambda: name, spec, queue limit, enqueue timeout, and a
--          list of strings as json: "register", name, spec in base64, queue limit, enqueue timeout, more settings ("name=value ...")
-- RETURNS  lambdas that changed
register('register_lambdas', {}, function(keys, args)
  local P, now, home, partitions = keys[1], instant(args[1]), tonumber(args[2]), tonumber(args[3])
  local changed = 0
  for i = 4, #args, 5 do
    local name, key = args[i], lambda_key(P, args[i])
    -- Found by their places: a pattern for all of it takes as long as the rest of this.
    local strings, first = args[i + 4], #'["register","' + #name + #'","' + 1
    local stop = string.find(strings, '"', first, true)
    local spec64, settings = string.sub(strings, first, stop - 1), string.match(strings, '^","%d+","%d+","([^"]*)"%]$', stop)
    local code = 'limit=' .. args[i + 2] .. ' timeout=' .. args[i + 3] .. ' ' .. settings
    local known = redis.call('HMGET', key, 'spec', 'code', 'set')
    if known[1] ~= args[i + 1] or known[2] ~= code then
      redis.call('SADD', P .. ':lambdas', name)
      redis.call('HSET', key, 'spec', args[i + 1], 'code', code)
      -- New here: it may have been forgotten, and a pause of before be on its way still, which nobody could see and lift.
      local gates = not known[1] and table.concat(gate_records.lines(P, name, now), ';') or nil
      registry.write(P, name, spec64, code, known[3], gates, home, partitions, now)
      changed = changed + 1
    end
  end
  return changed
end)
