-- served: which lambdas live workers run
-- KEYS[1]  the partition's record
-- ARGV     now, how many at most
-- RETURNS  "<pool> <lambda>", with the digest of a signature behind a space where it was said; "<pool> *": somebody there did not say
register('served', {'no-writes'}, function(keys, args)
  return redis.call('ZRANGE', keys[1] .. ':served', '(' .. fmt(instant(args[1])), '+inf', 'BYSCORE', 'LIMIT', 0, args[2])
end)
