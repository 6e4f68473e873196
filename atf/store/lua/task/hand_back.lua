-- hand_back: gives back what never started: claims (same token), and ids that were popped and never claimed. They are pushed again at
--            once. Counts neither an attempt nor a loss nor a run.
-- MOVES    hand back: CLAIMED -> ENQUEUED; return: ENQUEUED -> ENQUEUED; stop: CLAIMED -> CANCELLED; hold back: CLAIMED -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, claims given, then per claim: id, counter, nonce; then the ids that were popped and never claimed
-- RETURNS  per claim, then per id: 1 returned, 2 lost
register('hand_back', {'allow-oom'}, function(keys, args)
  local P, now, claims = keys[1], instant(args[1]), tonumber(args[2])
  local answer = {}
  for i = 3, 2 + 3 * claims, 3 do
    local id = args[i]
    local task, claim, nonce = moves.task(P, id, 'c', 'n')
    local counter = moves.claim_of(claim)
    if task.status ~= 'CLAIMED' or not moves.holds(task.status, args[i + 1], args[i + 2], counter, nonce) then  -- mutant: release_without_token
      answer[#answer + 1] = 2
    else
      claiming.hand_back(P, task, claim, now)
      answer[#answer + 1] = 1
    end
  end
  for i = 3 + 3 * claims, #args do
    local id = args[i]
    local status, queue, entry = fields_of(task_key(P, id), 's', 'q', 'e')
    local gone = false
    if status == 'ENQUEUED' then
      local left = tonumber(redis.call('HGET', queue_key(P, queue), 'pushed') or 0) - redis.call('LLEN', list_key(P, queue))
      entry = tonumber(entry or nil)
      gone = not entry or entry <= left
    end
    if gone then
      redis.call('HDEL', task_key(P, id), 'e')
      redis.call('ZADD', live_key(P, queue, 'ENQUEUED'), fmt(now), id)
      due_index.visit_by(P, queue, now)
    end
    answer[#answer + 1] = gone and 1 or 2
  end
  return answer
end)
