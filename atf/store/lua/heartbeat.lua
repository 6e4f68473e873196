-- heartbeat: CLAIMED, PROCESSING (same token) -> the same with a new lease; CLAIMED -> PROCESSING where it has started
-- KEYS[1]  the partition's record
-- ARGV     now, heartbeat timeout, 1 = the executor drains: its claims are marked, then per claim: id, counter, nonce, started (1),
--          progress ("" = unchanged)
-- RETURNS  per claim 1 ok, 2 lost, 3 its cancellation was asked for
register('heartbeat', {'allow-oom'}, function(keys, args)
  local P, now, timeout, draining = keys[1], instant(args[1]), tonumber(args[2]), args[3] == '1'
  local answer, leased = {}, {}
  note_clock(P, now, redis.call('HGET', P, 'clock'), CLOCK.NOTED)
  gathering((#args - 3) / 5, function(sets)
    for i = 4, #args, 5 do
      local id = args[i]
      local task = redis.call('HMGET', task_key(P, id), 's', 'c', 'n', 'x', 'q')
      if not holds(task[1], args[i + 1], args[i + 2], task[2], task[3]) then
        answer[#answer + 1] = 2
      else
        if task[1] == 'CLAIMED' and args[i + 3] == '1' then
          move(P, sets, id, task[5], 'CLAIMED', 'PROCESSING', now + timeout, now)
        else
          sets.ZADD(live_key(P, task[5], task[1]), fmt(now + timeout), id)
        end
        leased[task[5]] = true
        if draining then redis.call('HSET', task_key(P, id), 'm', args[i + 1]) end
        if args[i + 4] ~= '' then redis.call('HSET', task_key(P, id), 'p', args[i + 4]) end
        answer[#answer + 1] = task[4] and task[4] ~= ticks.LAST_RUN and 3 or 1
      end
    end
  end)
  for queue in pairs(leased) do visit_by(P, queue, now + timeout) end  -- only after the clock has stepped back can that be sooner
  return answer
end)
