-- acknowledge_outbox: strikes outbox records off
-- KEYS[1]  the partition's record
-- ARGV     now, then their numbers
-- RETURNS  records struck off
register('acknowledge_outbox', {'allow-oom'}, function(keys, args)
  local P, struck = keys[1], 0
  for i = 2, #args do
    struck = struck + redis.call('HDEL', P .. ':outbox', args[i])
    redis.call('ZREM', P .. ':outbox:due', args[i])
  end
  return struck
end)
