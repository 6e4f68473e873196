-- list_tasks: a page of tasks of some sets, one set after the other, each in the order of its scores
-- KEYS[1]  the partition's record
-- ARGV     now, score and id of the last one seen in the first set ("", "" = from the start), ids at most, then per set: queue (of a live
--          status) or lambda (of a finished one), status
-- RETURNS  how many sets were passed before the page was full, then id, score, id, score, ...

-- From which rank on a set is listed.
local function start_of(set, score, last)
  if last == '' then return 0 end
  local rank = redis.call('ZRANK', set, last)
  if rank and redis.call('ZSCORE', set, last) == score then return rank + 1 end
  return redis.call('ZCOUNT', set, '-inf', '(' .. score)  -- it has moved on meanwhile
end

register('list_tasks', {'no-writes'}, function(keys, args)
  local P, last, most, answer = keys[1], args[3], 1 + 2 * tonumber(args[4]), {0}
  for i = 5, #args, 2 do
    local owner, status = args[i], args[i + 1]
    local set = FINISHED[status] and done_key(P, owner, status) or live_key(P, owner, status)
    local start = start_of(set, args[2], last)
    local found = redis.call('ZRANGE', set, fmt(start), fmt(start + (most - #answer) / 2 - 1), 'WITHSCORES')
    for _, each in ipairs(found) do answer[#answer + 1] = each end
    if #answer == most then return answer end
    answer[1], last = answer[1] + 1, ''
  end
  return answer
end)
