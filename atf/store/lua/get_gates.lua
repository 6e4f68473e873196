-- get_gates: a lambda's gates as they stand in one partition
-- KEYS[1]  the partition's record
-- ARGV     now, name
-- RETURNS  now, 1 paused and not only until an instant that is over, due tasks that wait (NEW, RETRIABLE_FAILURE, ENQUEUED), dropped so far by any, text of the gates, then per
--          gate: number, tasks it keeps, tasks it dropped, "when it was set, id of the call, record" ("" = not known here)
register('get_gates', {'no-writes'}, function(keys, args)
  local P, now, name, waiting = keys[1], instant(args[1]), args[2], 0
  local known = redis.call('HMGET', lambda_key(P, name), 'paused', 'gates', 'pv', 'gv')
  for priority = 0, MAX_PRIORITY do
    local queue = name .. ':' .. priority
    waiting = waiting + redis.call('ZCARD', live_key(P, queue, 'ENQUEUED'))
    for _, status in ipairs({'NEW', 'RETRIABLE_FAILURE'}) do
      waiting = waiting + redis.call('ZCOUNT', live_key(P, queue, status), '-inf', fmt(now))
    end
  end
  local text, lines = known[2] or '', {}
  for line in string.gmatch(text, '[^;]+') do lines[#lines + 1] = line end
  local paused = paused_now(lines, known[1], known[3], known[4], now) and 1 or 0
  local answer = {fmt(now), paused, waiting, redis.call('HGET', tally_key(P, name), 'dropped') or '0', text}
  for _, line in ipairs(lines) do
    local number = string.match(line, '^%d+')
    local tally = redis.call('HMGET', tally_key(P, name), number, 'r' .. number)
    local at = #answer
    answer[at + 1], answer[at + 2] = number, redis.call('ZCARD', parked_key(P, name, number))
    answer[at + 3], answer[at + 4] = tally[1] or '0', tally[2] or ''
  end
  return answer
end)
