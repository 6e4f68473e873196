-- hand_back: gives back claims that never started (same token). They are pushed again at once. Counts neither an attempt nor a loss nor a run.
-- MOVES    hand back: CLAIMED -> ENQUEUED; stop: CLAIMED -> CANCELLED; hold back: CLAIMED -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, then per claim: id, counter, nonce
-- RETURNS  per claim: 1 returned, 2 lost
register('hand_back', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer = {}
  for i = 2, #args, 3 do
    local id = args[i]
    local task, claim = moves.task(P, id, 'c')
    local counter, _, nonce = moves.claim_of(claim)
    if task.status ~= 'CLAIMED' or not moves.holds(task.status, args[i + 1], args[i + 2], counter, nonce) then  -- mutant: release_without_token
      answer[#answer + 1] = 2
    else
      claiming.hand_back(P, task, claim, now)
      answer[#answer + 1] = 1
    end
  end
  return answer
end)
