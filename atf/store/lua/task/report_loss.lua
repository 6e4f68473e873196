-- report_loss: ends the claims of an executor that is verifiably dead (same token); what has losses left is pushed again at once.
--              Where several suspects ran in that executor, none of them can be blamed: they count no loss, and run alone from now on.
-- MOVES    lose: CLAIMED, PROCESSING -> ENQUEUED; lose for good: CLAIMED, PROCESSING -> FATAL_FAILURE;
--          stop: CLAIMED, PROCESSING -> CANCELLED; hold back: CLAIMED, PROCESSING -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, why, 1 = such suspects, then per claim: id, counter, nonce
-- RETURNS  per claim 1 lost now, 2 was lost before
register('report_loss', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer = {}
  for i = 4, #args, 3 do
    local status, claim = fields_of(task_key(P, args[i]), 's', 'c')
    local counter, _, nonce = moves.claim_of(claim)
    local held = moves.holds(status, args[i + 1], args[i + 2], counter, nonce)  -- mutant: lose_without_token
    if held then loss.record(P, args[i], now, args[2], args[3] == '1') end
    answer[#answer + 1] = held and 1 or 2
  end
  return answer
end)
