-- live_pools: those of which workers are alive, whether their hosts have names or not
-- KEYS[1]  the partition's record
-- ARGV     now
-- RETURNS  names ("" = of no name)
register('live_pools', {'no-writes'}, function(keys, args)
  return redis.call('ZRANGE', keys[1] .. ':workers', '(' .. fmt(instant(args[1])), '+inf', 'BYSCORE')
end)
