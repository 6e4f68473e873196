-- hand_back: CLAIMED (same token, never started) -> ENQUEUED, to be pushed again at once; CANCELLED where that was asked for;
--            ENQUEUED (popped, never claimed) -> ENQUEUED, the same way. Counts neither an attempt nor a loss nor a run.
-- KEYS[1]  the partition's record
-- ARGV     now, claims given, then per claim: id, counter, nonce; then the ids that were popped and never claimed
-- RETURNS  per claim, then per id: 1 returned, 2 lost
register('hand_back', {'allow-oom'}, function(keys, args)
  local P, now, claims = keys[1], instant(args[1]), tonumber(args[2])
  local answer = {}
  for i = 3, 2 + 3 * claims, 3 do
    local id = args[i]
    local task = redis.call('HMGET', task_key(P, id), 's', 'c', 'n', 'q', 'x', 'r', 'lim', 'k', 'w', 'h')
    if task[1] ~= 'CLAIMED' or not moves.holds(task[1], args[i + 1], args[i + 2], task[2], task[3]) then  -- mutant: release_without_token
      answer[#answer + 1] = 2
    else
      redis.call('HSET', task_key(P, id), 'r', tonumber(task[6]) - 1)
      if task[5] then
        moves.end_task(P, writes.AT_ONCE, id, task[4], 'CLAIMED', 'CANCELLED', now, task[7], task[8], task[9], true, task[10])
      else
        redis.call('HDEL', task_key(P, id), 'e', 'o')
        moves.move(P, writes.AT_ONCE, id, task[4], 'CLAIMED', 'ENQUEUED', now, now)
        if task[9] then ticks.hold(P, writes.AT_ONCE, id, task[4], 'ENQUEUED', task[9], now, task[10], now) end
        due_index.visit_by(P, task[4], now)
      end
      answer[#answer + 1] = 1
    end
  end
  for i = 3 + 3 * claims, #args do
    local id = args[i]
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'e')
    local gone = false
    if task[1] == 'ENQUEUED' then
      local left = tonumber(redis.call('HGET', queue_key(P, task[2]), 'pushed') or 0) - redis.call('LLEN', list_key(P, task[2]))
      local entry = tonumber(task[3] or nil)
      gone = not entry or entry <= left
    end
    if gone then
      redis.call('HDEL', task_key(P, id), 'e')
      redis.call('ZADD', live_key(P, task[2], 'ENQUEUED'), fmt(now), id)
      due_index.visit_by(P, task[2], now)
    end
    answer[#answer + 1] = gone and 1 or 2
  end
  return answer
end)
