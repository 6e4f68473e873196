-- ask_permits: in the limits ledger: a partition says what permits it has, gives back and needs. Idempotent: an older message than the
-- last one changes nothing.
-- KEYS[1]  the record of the limits ledger's partition
-- ARGV     now, lambda, partition that says so, number of its message, when it and (as it knows) the ledger last forgot something, then of
--          max_running's permits, and of the rate's: got, given back, needed; tasks that run there (-1 = it knows of no max_running); when its bucket was empty
-- RETURNS  1; 0 = nothing is known here of any partition (the store was emptied, and nobody has opened it since): to be said again
register('ask_permits', {'allow-oom'}, function(keys, args)
  if redis.call('HEXISTS', keys[1], 'partitions') == 0 then return 0 end
  local n = {}
  for i = 3, 13 do n[i] = tonumber(args[i]) end
  local said = {nG = n[7], nR = n[8], nN = n[9], bG = n[10], bR = n[11], bN = n[12]}
  limits_ledger.report(keys[1], args[2], n[3], n[4], n[5], n[6], said, n[13], tonumber(args[14]), instant(args[1]))
  return 1
end)
