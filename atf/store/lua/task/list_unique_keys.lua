-- list_unique_keys: a page of the windows of unique keys that are open, by their ends; its task is "" where the key is free again (see schedule)
-- KEYS[1]  the partition's record
-- ARGV     now, end and key of the last one seen ("", "" = from the start), windows at most
-- RETURNS  key, its window's task, end, key, ...
register('list_unique_keys', {'no-writes'}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  local ends = P .. ':uniques:expiry'
  local start = math.max(redis.call('ZCOUNT', ends, '-inf', fmt(now)), page_start(ends, args[2], args[3]))
  local found = redis.call('ZRANGE', ends, fmt(start), fmt(start + tonumber(args[4]) - 1), 'WITHSCORES')
  for i = 1, #found, 2 do
    answer[#answer + 1] = found[i]
    local id = redis.call('HGET', P .. ':uniques', found[i]) or ''
    answer[#answer + 1] = run_log.never_ran(P, id) and '' or id
    answer[#answer + 1] = found[i + 1]
  end
  return answer
end)
