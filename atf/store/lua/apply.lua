-- apply: carries out, in the partition that was owed it, what `register` or `set_gate` wrote at home. Idempotent: an older
-- version than the one on record changes nothing.
-- KEYS[1]  the partition's record
-- ARGV     now, version, "register", "gate" or "pause" (of an older role), name, then spec, queue limit, enqueue timeout, other settings and
--          perhaps the gates; or 1 paused, 0, and the gates
-- RETURNS  1 applied, 0 was applied before
register('apply', {'allow-oom'}, function(keys, args)
  local P, now, version, name = keys[1], instant(args[1]), args[2], args[4]
  local field = ({register = 'rv', gate = 'gv', pause = 'pv'})[args[3]]
  if tonumber(redis.call('HGET', lambda_key(P, name), field) or 0) >= tonumber(version) then return 0 end
  if args[3] == 'register' then
    redis.call('SADD', P .. ':lambdas', name)
    redis.call('HSET', lambda_key(P, name), 'spec', args[5])
    local gated = tonumber(redis.call('HGET', lambda_key(P, name), 'gv') or 0)
    if args[9] and gated < tonumber(version) then put_gates(P, name, args[9], version, now) end  -- before anything of it is pushed
    put_settings(P, name, args[6], args[7], args[8] or '', version, now)
  elseif args[3] == 'gate' then
    put_gates(P, name, args[6], version, now)
  else
    set_paused(P, name, args[5], version, now)
  end
  return 1
end)
