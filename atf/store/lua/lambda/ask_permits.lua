-- ask_permits: in the limits ledger: a partition says what permits it has, gives back and needs. Idempotent: an older message than the
-- last one changes nothing.
-- KEYS[1]  the record of the limits ledger's partition
-- ARGV     now, lambda, partition that says so, number of its message, when it and (as it knows) the ledger last forgot something, then of
--          max_running's permits, and of the rate's: got, given back, needed; tasks that run there (-1 = it knows of no max_running); when its bucket was empty
-- RETURNS  1; 0 = nothing is known here of any partition (the store was emptied, and nobody has opened it since): to be said again
register('ask_permits', {'allow-oom'}, function(keys, args)
  if redis.call('HEXISTS', keys[1], 'partitions') == 0 then return 0 end
  local numbers = {}
  for i = 3, 14 do numbers[i - 2] = tonumber(args[i]) end
  local from, number, epoch, ledger_epoch, nG, nR, nN, bG, bR, bN, runs, z = unpack(numbers)
  local said = {nG = nG, nR = nR, nN = nN, bG = bG, bR = bR, bN = bN}
  limits_ledger.report(keys[1], args[2], from, number, epoch, ledger_epoch, said, runs, z, instant(args[1]))
  return 1
end)
