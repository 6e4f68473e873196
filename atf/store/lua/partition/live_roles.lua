-- live_roles: the processes of roles that are alive, but for executors
-- KEYS[1]  the registry partition's record
-- ARGV     now, how many at most
-- RETURNS  "<role> <version> <name>", ...
register('live_roles', {'no-writes'}, function(keys, args)
  return redis.call('ZRANGE', keys[1] .. ':roles', '(' .. fmt(instant(args[1])), '+inf', 'BYSCORE', 'LIMIT', 0, args[2])
end)
