-- heartbeat: gives held claims a new lease (same token), and notes which runs have started
-- MOVES    heartbeat: CLAIMED, PROCESSING; start: CLAIMED -> PROCESSING
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), what it remembers (see store_clock.note_server), the caller's name on the roster, heartbeat timeout,
--          1 = the executor drains: its claims are marked, then per claim: id, counter, nonce, started (1), progress ("" = unchanged),
--          log ("" = unchanged; see kept_log.lua)
-- RETURNS  {"unlisted"} = the name is not on the roster; else per claim 1 ok, 2 lost, 3 its cancellation was asked for, 5 ok, and somebody watches
--          its log; and then the call's number. Without a claim it says that the caller lives, and is answered for how long no claims are given, where that is so
register('heartbeat', {'allow-oom'}, function(keys, args)
  local P, now, timeout, draining = keys[1], instant(args[1]), tonumber(args[5]), args[6] == '1'
  local pause, _, clock, watched = store_clock.note_server(P, args[2], args[3], now, timeout, 'log_watch')
  watched = tonumber(watched or 0) > now
  local last = roster.last(P, args[4])
  if not last then return {'unlisted'} end
  if #args == 6 then
    local number = last < now - roster.SPEAKS and roster.count(P, args[4], last, now) or fmt(last)
    return pause and {fmt(pause), number} or {number}
  end
  local answer, leased = {}, {}
  store_clock.note(P, now, clock, store_clock.NOTED)
  writes.gather((#args - 6) / 6, function(sets)
    for i = 7, #args, 6 do
      local id = args[i]
      local status, claim, flagged, queue = fields_of(task_key(P, id), 's', 'c', 'x', 'q')
      local counter, _, nonce = moves.claim_of(claim)
      if not moves.holds(status, args[i + 1], args[i + 2], counter, nonce) then
        answer[#answer + 1] = 2
      else
        if status == 'CLAIMED' and args[i + 3] == '1' then
          moves.move(P, sets, id, queue, 'CLAIMED', 'PROCESSING', now + timeout, now)
        else
          sets.ZADD(live_key(P, queue, status), fmt(now + timeout), id)
        end
        leased[queue] = now + timeout
        if draining then redis.call('HSET', task_key(P, id), 'm', args[i + 1]) end
        if args[i + 4] ~= '' then redis.call('HSET', task_key(P, id), 'p', record.put(P, id, 'p', args[i + 4])) end
        if args[i + 5] ~= '' then kept_log.put(P, id, redis.call('HGET', task_key(P, id), 'log'), args[i + 5]) end
        local said = flagged and flagged ~= ticks.LAST_RUN and 3 or 1
        answer[#answer + 1] = watched and said == 1 and kept_log.is_watched(P, id, now) and 5 or said
      end
    end
  end)
  due_index.visit_all_by(P, leased)  -- only after the clock has stepped back can that be sooner
  answer[#answer + 1] = next(leased) and roster.count(P, args[4], last, now) or fmt(last)
  return answer
end)
