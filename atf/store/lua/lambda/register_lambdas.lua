-- register_lambdas: writes a lambda's record in the registry partition, and adds it to the outbox for the others. What an operator has set
--                   stays set.
-- KEYS[1]  the registry partition's record
-- ARGV     now, number of partitions, then per lambda: name, spec in base64, queue limit, enqueue timeout, more
--          settings ("name=value ...")
-- RETURNS  lambdas that changed
register('register_lambdas', {}, function(keys, args)
  local P, now, partitions, changed = keys[1], instant(args[1]), tonumber(args[2]), 0
  for i = 3, #args, 5 do
    local name, given, key = args[i], args[i + 1], lambda_key(P, args[i])
    local said = 'limit=' .. args[i + 2] .. ' timeout=' .. args[i + 3] .. ' ' .. args[i + 4]
    local spec, code, set = fields_of(key, 'spec', 'code', 'set')
    if spec ~= given or code ~= said then
      redis.call('SADD', P .. ':lambdas', name)
      redis.call('HSET', key, 'spec', given, 'code', said)
      -- New here: it may have been forgotten, and a pause of before be on its way still, which nobody could see and lift.
      local gates = not spec and table.concat(gate_records.lines(P, name, now), ';') or nil
      registry.write(P, name, given, said, set, gates, partitions, now)
      changed = changed + 1
    end
  end
  return changed
end)
