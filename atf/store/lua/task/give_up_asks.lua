-- give_up_asks: hands back what asks have claimed here and nobody has started, and has them claim nothing any more. Counts neither an attempt nor a
--               loss nor a run.
-- MOVES    hand back: CLAIMED -> ENQUEUED; stop: CLAIMED -> CANCELLED; hold back: CLAIMED -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, heartbeat timeout, then the nonces of the asks
-- RETURNS  how many tasks were handed back
register('give_up_asks', {'allow-oom'}, function(keys, args)
  local P, now, handed_back = keys[1], instant(args[1]), 0
  for i = 3, #args do
    local key = claiming.ask_key(P, args[i])
    local text = claiming.asked(key)
    for id in string.gmatch(text or '', '%S+') do
      local task, claim = moves.task(P, id, 'c')
      local _, _, nonce = moves.claim_of(claim)
      if task.status == 'CLAIMED' and nonce == args[i] then
        claiming.hand_back(P, task, claim, now)
        handed_back = handed_back + 1
      end
    end
    claiming.remember(key, claiming.GIVEN_UP, tonumber(args[2]))
  end
  return handed_back
end)
