-- claim_pauses: whether claims are given in this partition
-- KEYS[1]  the partition's record
-- ARGV     now
-- RETURNS  nothing where they are; else for how long none are (µs, at least), 1 = that is over and no store consumer has seen it yet, how many
--          are still to answer whose answers end it sooner, its cause
register('claim_pauses', {'no-writes'}, function(keys, args)
  return roster.pause(keys[1], instant(args[1]))
end)
