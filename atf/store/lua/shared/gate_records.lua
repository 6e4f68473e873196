-- A lambda's gates as they stand in a partition, and in the registry partition, which adds them to its outbox for the others.

gate_records.tally_key = remembered(function(P, name) return P .. ':g:' .. name end)

-- A lambda is paused, or goes on: in `pauses`, "<since> <until>;...", stand the last ones, the one that goes on without its end. A pause keeps what is due and what
-- stands in queues without a look at each task.
function gate_records.note_pause(P, name, before, after, now)
  if before == after then return end
  local known = redis.call('HGET', gate_records.tally_key(P, name), 'pauses') or ''
  local others = string.match(known, '([^;]*;[^;]*;[^;]*;)$') or known
  redis.call('HSET', gate_records.tally_key(P, name), 'pauses', after and others .. fmt(now) or known .. ' ' .. fmt(now) .. ';')
end

-- Has a lambda's gates looked at at `at` or before.
function gate_records.look_by(P, name, at)
  local first = redis.call('ZRANGE', P .. ':gates', 0, 0, 'WITHSCORES')
  redis.call('ZADD', P .. ':gates', 'LT', fmt(at), name)
  if not first[2] or at < tonumber(first[2]) then redis.call('SPUBLISH', P .. ':notify:due', '') end
end

-- Writes a lambda's gates within one partition; their numbers are those of the text. No `version`: some of them have ended, which is a
-- change all the same.
function gate_records.put(P, name, text, version, now)
  local key, paused, single = lambda_key(P, name), '0', false
  local gates_before, paused_before = fields_of(key, 'gates', 'paused')
  for line in string.gmatch(text, '[^;]+') do
    if gate_rules.whole_pause(line) then paused = '1' else single = true end
    redis.call('HINCRBY', gate_records.tally_key(P, name), string.match(line, '^%d+'), 0)
  end
  local single_before = gates_before and #gate_rules.of(gates_before) > 0 or false
  if single ~= single_before then redis.call('HINCRBY', P, 'gated', single and 1 or -1) end
  if text ~= '' then redis.call('HSET', key, 'gates', text) elseif gates_before then redis.call('HDEL', key, 'gates') end
  if version then redis.call('HSET', key, 'gv', version) else grown(P, 'lambda_version', now) end
  if version or paused ~= paused_before then registry.set_paused(P, name, paused, now) end
  gate_records.look_by(P, name, now)
end

-- Writes a lambda's gates in the registry partition, and adds them to the outbox for the others. `same`: somebody sets or lifts what is so already; that is passed on, since one of the others may have
-- heard of what the registry partition has forgotten, but not where much is in the outbox already: one of them may be away for long.
function gate_records.write(P, name, text, partitions, now, same)
  if same and redis.call('ZCARD', P .. ':outbox:due') >= 64 then return end
  local version = grown(P, 'lambda_version', now)
  gate_records.put(P, name, text, version, now)
  outbox.add_for_others(P, partitions, version .. outbox.words('gate', name, text), now)
end

-- The lines of a lambda's gates, without those that have ended, though no visit has struck them off yet.
function gate_records.lines(P, name, now)
  local lines = {}
  for line in string.gmatch(redis.call('HGET', lambda_key(P, name), 'gates') or '', '[^;]+') do
    local ends = gate_rules.parse(line).ends
    if ends == 0 or ends > now then lines[#lines + 1] = line end
  end
  return lines
end
