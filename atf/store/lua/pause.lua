-- pause: pauses or resumes a lambda in its home partition and owes it to the others
-- KEYS[1]  the home partition's record
-- ARGV     now, number of this partition, number of partitions, name, 1 paused or 0, body of the outbox records
-- RETURNS  1 done, 0 no such lambda
register('pause', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  if redis.call('EXISTS', lambda_key(P, args[4])) == 0 then return 0 end
  local version = fmt(redis.call('HINCRBY', P, 'lambda_version', 1))
  set_paused(P, args[4], args[5], version, now)
  for target = 0, tonumber(args[3]) - 1 do
    if target ~= tonumber(args[2]) then owe(P, target, version .. '\n' .. args[6], now) end
  end
  return 1
end)
