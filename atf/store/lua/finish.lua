-- finish: CLAIMED, PROCESSING (same token) -> SUCCESS; RETRIABLE_FAILURE or, with no attempts left, FATAL_FAILURE;
--         FATAL_FAILURE by the lambda's word; CANCELLED where that was asked for, unless it succeeded
-- KEYS[1]  the partition's record
-- ARGV     now, then per run: id, counter, nonce, outcome, result, encoding, error, retry in, ran, ended ago
--          outcome: 1 succeeded, 2 failed, 3 failed fatally, 4 timed out, 5 stopped
-- RETURNS  per run 1 recorded (now, or before by the same token), 2 lost
local WHY = {'succeeded', 'failed', 'failed_fatal', 'timed_out', 'stopped'}

register('finish', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer = {}
  for i = 2, #args, 10 do
    local id, counter, nonce, outcome = args[i], args[i + 1], args[i + 2], tonumber(args[i + 3])
    local task = redis.call('HMGET', task_key(P, id), 's', 'c', 'n', 'q', 'lim', 'a', 'R', 'o', 'x', 'k', 'w', 'f')
    local status, queue = task[1], task[4]
    if not holds(status, counter, nonce, task[2], task[3]) then
      answer[#answer + 1] = (task[12] == counter and task[3] == nonce) and 1 or 2
    else
      local attempts = tonumber(task[6] or 0) + 1
      local ended = now - tonumber(args[i + 9])
      local runs = with_run(task[7], task[8] or '', ended - tonumber(args[i + 8]), ended, attempts, WHY[outcome])
      local fields = {'f', counter, 'a', attempts, 'R', runs}
      local set = function(name, value) fields[#fields + 1] = name; fields[#fields + 1] = value end
      local target, retry_at = 'FATAL_FAILURE', nil
      if outcome == 1 then
        target = 'SUCCESS'
        set('res', args[i + 4])
        if args[i + 5] ~= '0' then set('enc', args[i + 5]) end
      else
        set('err', args[i + 6])
        if task[9] then
          target = 'CANCELLED'
        elseif outcome ~= 3 and attempts < tonumber(string.match(task[5] or DEFAULT_LIMITS, '^%d+')) then
          target, retry_at = 'RETRIABLE_FAILURE', now + tonumber(args[i + 7])
        end
      end
      if retry_at then
        redis.call('HDEL', task_key(P, id), 'e', 'o')
        move(P, id, queue, status, target, retry_at, now, unpack(fields))
        visit_by(P, queue, retry_at)
      else
        rest(P, id, queue, status, target, now, task[5], task[10], task[11], unpack(fields))
      end
      answer[#answer + 1] = 1
    end
  end
  return answer
end)
