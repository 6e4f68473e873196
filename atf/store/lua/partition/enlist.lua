-- enlist: puts a holder of leases on the roster under a new name, and takes its answer to whether its last lease is still there; no task
--         changes its state
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), what it remembers (see store_clock.note_server), heartbeat timeout, the new name ("" = it leaves), the
--          one that it had before ("" = none), the highest number that it was answered under that one
-- RETURNS  1 = it must not be answered a lease before this call is safe on the disk; what its answer was, "" (it was not asked), "yes" or
--          "no"; how many are still to answer, 0 once the pause of claims is over
--
-- Where the name before is on the roster, or asked, no proof is needed: where this call is forgotten, that one is there again, and as nobody
-- speaks for it any more, the pause lasts its whole time.
register('enlist', {'allow-oom'}, function(keys, args)
  local P, now, name, before = keys[1], instant(args[1]), args[5], args[6]
  local pause = store_clock.note_server(P, args[2], args[3], now, tonumber(args[4]))
  local listed, asked = roster.key(P, 'roster'), roster.key(P, 'asked')
  local known, said = redis.call('HDEL', listed, before) == 1, ''
  local number = before ~= '' and tonumber(redis.call('HGET', asked, before) or nil)
  if number then
    known, said = true, number >= tonumber(args[7]) and 'yes' or 'no'  -- mutant: answer_not_compared
    if said == 'yes' then
      redis.call('HDEL', asked, before)
      if roster.answered(P, tonumber(redis.call('HGET', P, 'pause_until') or nil)) then pause = nil end
    end
  end
  if name ~= '' then roster.put(listed, name, fmt(now)) end
  local forgets = not roster.MEMORY[redis.call('HGET', P, 'durable') or '']  -- then the roster ends no pause after it, and there is nothing to prove
  return {(known or forgets) and 0 or 1, said, pause and math.max(roster.left(P), 1) or 0}
end)
