-- list_gates: the gates of some lambdas as they stand in one partition
-- KEYS[1]  the partition's record
-- ARGV     now, then the lambdas
-- RETURNS  per lambda: now, due tasks that wait (NEW, RETRIABLE_FAILURE, ENQUEUED), dropped so far by any, text of the gates, then per gate: number, tasks it keeps, tasks it dropped, "when it was set, id of the call, record" ("" = not known here)

-- Due tasks of a lambda that wait.
local function due_of(P, name, now)
  local waiting, sets = 0, due_index.sets_of(P, name, {'NEW', 'RETRIABLE_FAILURE', 'ENQUEUED'})
  if redis.call('EXISTS', unpack(sets)) == 0 then return 0 end  -- mostly so: one call instead of one per set
  for i = 1, #sets, 3 do
    waiting = waiting + redis.call('ZCOUNT', sets[i], '-inf', fmt(now)) + redis.call('ZCOUNT', sets[i + 1], '-inf', fmt(now))
    waiting = waiting + redis.call('ZCARD', sets[i + 2])
  end
  return waiting
end

register('list_gates', {'no-writes'}, function(keys, args)
  local P, now, answers = keys[1], instant(args[1]), {}
  for i = 2, #args do
    local name = args[i]
    local text = redis.call('HGET', lambda_key(P, name), 'gates') or ''
    local answer = {fmt(now), due_of(P, name, now), redis.call('HGET', gate_records.tally_key(P, name), 'dropped') or '0', text}
    for line in string.gmatch(text, '[^;]+') do
      local number = string.match(line, '^%d+')
      local dropped, record = fields_of(gate_records.tally_key(P, name), number, 'r' .. number)
      local kept = redis.call('ZCARD', parking.key(P, name, number))
      for _, each in ipairs({number, kept, dropped or '0', record or ''}) do answer[#answer + 1] = each end
    end
    answers[i - 1] = answer
  end
  return answers
end)
