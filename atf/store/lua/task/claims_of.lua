-- claims_of: answers what an ask has claimed here and not started, once more: the same tokens, with new leases
-- MOVES    heartbeat: CLAIMED
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), what it remembers (see store_clock.note_server), the caller's name on the roster, heartbeat timeout,
--          owner, nonce, bytes that the specs and their overhead may come to (a first task may be larger)
-- RETURNS  {"unlisted"} = the name is not on the roster; {"paused", then as of `claim_pauses`} while no claims are given; else as of `next_claims`, whose
--          taker 1 this is, queues before their tasks; and then the call's number
register('claims_of', {'allow-oom'}, function(keys, args)
  local P, answer = keys[1], {}
  claiming.prepare(instant(args[1]), tonumber(args[5]), '', tonumber(args[8]), true)
  claiming.by(args[2], args[3], args[4])
  local text = claiming.asked(claiming.ask_key(P, args[7]))
  if not claiming.gives(P) then return claiming.refusal end
  if text and text ~= claiming.GIVEN_UP then claiming.repeated(P, answer, 1, text, args[6], args[7]) end
  claiming.finish(P)
  return {answer, claiming.number(P, #answer > 0)}
end)
