-- lift_gate: lifts gates of a lambda in the registry partition, and adds that to the outbox for the others
-- KEYS[1]  the registry partition's record
-- ARGV     now, number of partitions, name, then what they are about ("action label=value ...")
-- RETURNS  how many were lifted; -1 no such lambda
register('lift_gate', {'allow-oom'}, function(keys, args)
  local P, now, name = keys[1], instant(args[1]), args[3]
  if redis.call('EXISTS', lambda_key(P, name)) == 0 then return -1 end
  local lines, wanted, kept = gate_records.lines(P, name, now), {}, {}
  for i = 4, #args do wanted[args[i]] = true end
  for _, line in ipairs(lines) do
    if not wanted[gate_rules.about(line)] then kept[#kept + 1] = line end
  end
  gate_records.write(P, name, table.concat(kept, ';'), tonumber(args[2]), now, #kept == #lines)
  return #lines - #kept
end)
