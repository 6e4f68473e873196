-- pause_claims: no claims are given for a while: until executors have ended that hold claims which this store knows nothing of
-- KEYS[1]  the partition's record
-- ARGV     now, how long, the cause (see store_clock.pause_claims)
-- RETURNS  the instant from which on claims are given again
register('pause_claims', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local pause_until = redis.call('HGET', P, 'pause_until')
  return fmt(store_clock.pause_claims(P, tonumber(pause_until or nil), now, tonumber(args[2]), args[3]))
end)
