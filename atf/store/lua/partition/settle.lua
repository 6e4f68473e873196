-- settle: has `claim` give none for a while: until executors have ended that hold claims which this store knows nothing of
-- KEYS[1]  the partition's record
-- ARGV     now, how long, the cause (see pause_claims)
-- RETURNS  the instant from which on claims are given again
register('settle', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local record = redis.call('HMGET', P, 'settled', 'passed', 'clock')
  return fmt(pause_claims(P, tonumber(record[1] or nil), tonumber(record[2] or nil), record[3], now, tonumber(args[2]), args[3]))
end)
