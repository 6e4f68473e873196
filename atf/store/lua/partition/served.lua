-- served: which lambdas live workers run, a page at a time
-- KEYS[1]  the partition's record
-- ARGV     now, the instant that the page before ended at ("" = there was none), how many of that instant it had named, how many at most
-- RETURNS  the instant that this page ends at, how many of that have been named, then the entries; nothing where there are none:
--          "<pool> <lambda>", with the digest of a signature behind a space where it was said; "<pool> *": somebody there did not say
--
-- Entries stand by the instant until when they hold. What is said again between two pages moves to a later one; since all of one instant
-- were said in one call, and are said again in one, none is passed over.
register('served', {'no-writes'}, function(keys, args)
  local served, from, named = keys[1] .. ':served', '(' .. fmt(instant(args[1])), 0
  if args[2] ~= '' then from, named = args[2], math.min(tonumber(args[3]), redis.call('ZCOUNT', keys[1] .. ':served', args[2], args[2])) end
  local found = redis.call('ZRANGE', served, from, '+inf', 'BYSCORE', 'LIMIT', named, args[4])
  if #found == 0 then return {} end
  local last = redis.call('ZSCORE', served, found[#found])
  return {last, named + #found - redis.call('ZCOUNT', served, from, '(' .. last), found}
end)
