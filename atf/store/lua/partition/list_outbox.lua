-- list_outbox: the outbox records of a partition, for whoever wants to apply them at once
-- KEYS[1]  the partition's record
-- ARGV     now, records at most
-- RETURNS  number, target, body, ...
register('list_outbox', {'no-writes'}, function(keys, args)
  local P, answer = keys[1], {}
  for _, number in ipairs(redis.call('ZRANGE', P .. ':outbox:due', 0, fmt(tonumber(args[2]) - 1))) do
    outbox.append(P, number, answer)
  end
  return answer
end)
