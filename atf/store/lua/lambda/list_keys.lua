-- list_keys: a page of the ordering keys of a lambda that have stopped, the earliest first; or one key, as it stands
-- KEYS[1]  the partition's record
-- ARGV     now, lambda, key ("" = all that have stopped), instant and key of the last one seen ("", "" = from the start), keys at most
-- RETURNS  per key {key, when it stopped (0 = it has not), the task at its head, that one's error, unfinished tasks of it}; nothing
--          of a key without unfinished tasks that has not stopped
register('list_keys', {'no-writes'}, function(keys, args)
  local P, name, stops, answer = keys[1], args[2], stops_key(keys[1], args[2]), {}
  local function add(k, head, at)
    local stopped = string.sub(head, 1, 1) == ordering_keys.STOPPED
    local id = stopped and string.sub(head, 2) or head
    local length = redis.call('LLEN', order_key(P, k)) - (stopped and 1 or 0)
    local err = record.get(P, id, 'err', redis.call('HGET', task_key(P, id), 'err')) or ''
    answer[#answer + 1] = {k, stopped and at or '0', id, err, length}
  end
  if args[3] ~= '' then
    local k = name .. ':' .. args[3]
    local head = redis.call('LINDEX', order_key(P, k), 0)
    if head then add(k, head, redis.call('ZSCORE', stops, k) or '0') end
    return answer
  end
  local start = page_start(stops, args[4], args[5])
  local found = redis.call('ZRANGE', stops, fmt(start), fmt(start + tonumber(args[6]) - 1), 'WITHSCORES')
  for i = 1, #found, 2 do
    local head = redis.call('LINDEX', order_key(P, found[i]), 0)
    if head then add(found[i], head, found[i + 1]) end
  end
  return answer
end)
