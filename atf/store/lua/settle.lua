-- settle: has `claim` give none for a while: until executors have ended that hold claims which this store knows nothing of
-- KEYS[1]  the partition's record
-- ARGV     now, how long
-- RETURNS  the instant from which on claims are given again
register('settle', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local settled = math.max(tonumber(redis.call('HGET', P, 'settled') or 0) + 1, now + tonumber(args[2]))
  redis.call('HSET', P, 'settled', fmt(settled))
  return fmt(settled)
end)
