-- claims_of: answers what an ask has claimed here and not started, once more: the same tokens, with new leases
-- MOVES    heartbeat: CLAIMED
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), what it remembers (see store_clock.note_server), the caller's name on the roster, heartbeat timeout,
--          owner, nonce, bytes that the specs and their overhead may come to (a first task may be larger)
-- RETURNS  {"unlisted"} = the name is not on the roster; {"paused", then as of `claim_pauses`} while no claims are given; else as of `next_claims`, whose
--          taker 1 this is, queues before their tasks; and then the call's number
register('claims_of', {'allow-oom'}, function(keys, args)
  local P, now, timeout = keys[1], instant(args[1]), tonumber(args[5])
  local pause, _, clock, logged = store_clock.note_server(P, args[2], args[3], now, timeout, 'logged')
  local last = roster.last(P, args[4])
  if not last then return {'unlisted'} end
  store_clock.note(P, now, clock, store_clock.NOTED)
  if pause then return {'paused', unpack(roster.pause(P, now))} end

  local answer, text = {}, claiming.asked(P, args[7])
  if text and text ~= claiming.GIVEN_UP then
    claiming.begin(P, now, timeout, false, tonumber(logged or 0) > 0, '', tonumber(args[8]), true)
    claiming.repeated(P, answer, 1, text, args[6], args[7])
    claiming.finish(P)
  end
  return {answer, #answer > 0 and roster.count(P, args[4], last, now) or fmt(last)}
end)
