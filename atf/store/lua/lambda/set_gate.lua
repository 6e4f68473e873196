-- set_gate: sets a gate of a lambda in the registry partition, in the place of the one about the same, and adds it to the outbox for the others
-- KEYS[1]  the registry partition's record
-- ARGV     now, number of partitions, name, what it is about ("action label=value ..."), amount, until ("" =
--          after a while), that while (0 = until it is lifted), 1 = only where there is none about the same, 2 = where there is none
--          that stands until it is lifted, id of the call ("" = none), record
-- RETURNS  {number, until} of the gate, and 1 where this call has set it; {} no such lambda; {0} it has too many
--
-- A call that is repeated finds its own gate. A pause of the whole lambda has a place of its own beside the others: whoever must stop
-- a lambda can, and it is held against no task.
register('set_gate', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local partitions, name, wanted, amount, ends_at, for_us, unless, request, record = unpack(args, 2)
  if redis.call('EXISTS', lambda_key(P, name)) == 0 then return {} end
  local lines, kept, others = gate_records.lines(P, name, now), {}, 0
  for _, line in ipairs(lines) do
    if gate_rules.about(line) ~= wanted then
      kept[#kept + 1] = line
      if not gate_rules.whole_pause(line) then others = others + 1 end
    else
      local gate = gate_rules.parse(line)
      local number = fmt(gate.number)
      local call = string.match(redis.call('HGET', gate_records.tally_key(P, name), 'r' .. number) or '', '^%d+ (%S*)')
      local same = request ~= '' and call == request
      if same or unless == '1' or unless == '2' and gate.ends == 0 then
        gate_records.write(P, name, table.concat(lines, ';'), tonumber(partitions), now, true)
        return {number, fmt(gate.ends), 0}
      end
    end
  end
  if others >= MAX_GATES and wanted ~= 'pause' then return {0} end
  local number = grown(P, 'lambda_version', now)
  local ends = ends_at ~= '' and ends_at or tonumber(for_us) > 0 and fmt(now + tonumber(for_us)) or '0'
  local action, labels = string.match(wanted, '^(%l+) ?(.*)$')
  kept[#kept + 1] = number .. ' ' .. action .. ' ' .. ends .. ' ' .. amount .. (labels ~= '' and ' ' .. labels or '')
  gate_records.write(P, name, table.concat(kept, ';'), tonumber(partitions), now)
  redis.call('HSET', gate_records.tally_key(P, name), 'r' .. number, fmt(now) .. ' ' .. request .. ' ' .. record)
  return {number, ends, 1}
end)
