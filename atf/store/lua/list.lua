-- list: a page of one set of tasks, in the order of its scores
-- KEYS[1]  the partition's record
-- ARGV     now, queue (of a live status) or lambda (of a finished one), status, score and id of the last one seen
--          ("", "" = from the start), ids at most
-- RETURNS  id, score, id, score, ...
register('list', {'no-writes'}, function(keys, args)
  local P, owner, status, score, last = keys[1], args[2], args[3], args[4], args[5]
  local set = FINISHED[status] and done_key(P, owner, status) or live_key(P, owner, status)
  local start = 0
  if last ~= '' then
    local rank = redis.call('ZRANK', set, last)
    if rank and redis.call('ZSCORE', set, last) == score then
      start = rank + 1
    else
      start = redis.call('ZCOUNT', set, '-inf', '(' .. score)  -- it has moved on meanwhile
    end
  end
  return redis.call('ZRANGE', set, fmt(start), fmt(start + tonumber(args[6]) - 1), 'WITHSCORES')
end)
