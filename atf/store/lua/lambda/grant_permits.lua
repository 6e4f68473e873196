-- grant_permits: the limits ledger says what permits this partition has. Idempotent: an older message than the last one changes nothing.
-- KEYS[1]  the partition's record
-- ARGV     now, lambda, number of the ledger's message, when the ledger and (as it knows) this partition last forgot something, then of max_running's
--          permits, and of the rate's: got, given back, the most to keep (-1 = all); when the ledger's bucket was empty
-- RETURNS  1 taken, 0 was older
register('grant_permits', {'allow-oom'}, function(keys, args)
  local P, now, name, numbers = keys[1], instant(args[1]), args[2], {}
  for i = 3, 12 do numbers[i - 2] = tonumber(args[i]) end
  local number, ledger_epoch, epoch, nG, nR, nC, bG, bR, bC, z = unpack(numbers)
  local settings = registry.settings(P, name)
  local given = {nG = nG, nR = nR, nC = nC, bG = bG, bR = bR, bC = bC}
  if not permit_part.sync(P, name, number, ledger_epoch, epoch, given, z, permits.limits_of(settings), now) then return 0 end
  local room = permits.room(P, name .. ':1', settings, now)
  if room and room.partitions > 1 then permit_part.report(P, room, now) end
  return 1
end)
