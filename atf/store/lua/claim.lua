-- claim: ENQUEUED -> CLAIMED, with a new token
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), durable (1 = the server forgets nothing at a restart), owner, nonce,
--          claim timeout, bytes at most, then the ids
-- RETURNS  {"settling", µs} while no claims are given, else per id {id, counter, spec, attempt, run, losses, at};
--          {id} = lost; {id, ""} = not looked at, for the bytes
--
-- A server that restarted or took over may have forgotten claims that their executors still hold. It gives none for one
-- claim timeout, so that those executors have ended by then.
register('claim', {'allow-oom'}, function(keys, args)
  local P, now, server, timeout = keys[1], instant(args[1]), args[2], tonumber(args[6])
  local owner, nonce, bytes = args[4], args[5], tonumber(args[7])
  local record = redis.call('HMGET', P, 'server', 'settled')
  if server ~= '' and record[1] ~= server then
    redis.call('HSET', P, 'server', server)
    if record[1] and args[3] ~= '1' then
      record[2] = fmt(now + timeout)
      redis.call('HSET', P, 'settled', record[2])
    end
  end
  if record[2] and now < tonumber(record[2]) then return {'settling', fmt(tonumber(record[2]) - now)} end

  local answer = {}
  for i = 8, #args do
    local id = args[i]
    if bytes <= 0 then
      answer[#answer + 1] = {id, ''}
    else
      local task = redis.call('HMGET', task_key(P, id), 's', 'c', 'n', 'o', 'q', 'spec', 'a', 'r', 'l', 'at')
      local counter, run = tonumber(task[2] or 0), tonumber(task[8] or 0)
      local claimed = task[1] == 'CLAIMED' and task[3] == nonce and task[4] == owner  -- this very call, once more
      if task[1] == 'ENQUEUED' then
        counter, run, claimed = math.max(counter + 1, now), run + 1, true
        move(P, id, task[5], 'ENQUEUED', 'CLAIMED', now + timeout, now, 'c', fmt(counter), 'n', nonce, 'o', owner, 'r', run)
      end
      if claimed then
        answer[#answer + 1] = {id, fmt(counter), task[6], fmt(tonumber(task[7] or 0) + 1), fmt(run), task[9] or '0', task[10]}
        bytes = bytes - #task[6] - CLAIM_OVERHEAD
      else
        answer[#answer + 1] = {id}
      end
    end
  end
  return answer
end)
