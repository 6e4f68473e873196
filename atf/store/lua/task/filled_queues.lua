-- filled_queues: names the queues that hold something, those of which some stands beside the queue among them (misfits.lua)
-- KEYS[1]  the partition's record
-- ARGV     now
-- RETURNS  {queues}
register('filled_queues', {'no-writes'}, function(keys, args)
  local P, known = keys[1], {}
  local names = taking.all_filled(P)
  for _, queue in ipairs(names) do known[queue] = true end
  for _, name in ipairs(misfits.apart(P)) do
    local queue = string.match(name, '^%S+')
    if not known[queue] then names[#names + 1], known[queue] = queue, true end
  end
  return names
end)
