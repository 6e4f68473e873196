-- apply_outbox: carries out, in the partition that it is for, what a change of lambdas or gates wrote in the registry partition. Idempotent: an older
-- version than the one on record changes nothing. What is newer here may be of before the registry partition forgot: so that one is asked (resync_lambdas.lua).
-- KEYS[1]  the partition's record
-- ARGV     now, version, "register", "gate" or "forget", name, then spec, queue limit, enqueue timeout, other settings and perhaps the
--          gates; or the gates alone
-- RETURNS  1 applied, 0 was applied before

-- Asks the registry partition, one question at a time.
local function ask_again(P, name, settings, gates, now)
  local asked = redis.call('HGET', lambda_key(P, name), 'asked')
  if asked and redis.call('HEXISTS', P .. ':outbox', asked) == 1 then return end
  local question = outbox.words('resync', '', name, settings, gates)
  redis.call('HSET', lambda_key(P, name), 'asked', outbox.add(P, 0, '0' .. question, now))
end

register('apply_outbox', {'allow-oom'}, function(keys, args)
  local P, now, version, kind, name = keys[1], instant(args[1]), args[2], args[3], args[4]
  local said, settings, gates = tonumber(version), registry.versions_of(P, name)
  if kind == 'forget' then
    if math.max(settings, gates) >= said then return 0 end  -- it was registered again since
    registry.forget(P, name)
    return 1
  end
  local of_settings = kind == 'register'
  local spec, limit, timeout, text, gates_text = unpack(args, 5, 9)
  if not of_settings then gates_text = args[5] end
  if of_settings and settings > said or gates_text and gates > said then ask_again(P, name, settings, gates, now) end
  if (of_settings and settings or gates) >= said then return 0 end
  if of_settings then
    redis.call('SADD', P .. ':lambdas', name)
    redis.call('HSET', lambda_key(P, name), 'spec', spec)
    if gates_text and gates < said then gate_records.put(P, name, gates_text, version, now) end  -- before anything of it is pushed
    registry.put(P, name, limit, timeout, text or '', version, now)
  else
    gate_records.put(P, name, gates_text, version, now)
  end
  return 1
end)
