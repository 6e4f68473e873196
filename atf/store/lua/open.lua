-- open: makes the partition's record where there is none, and notes the server
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), durable (1 = it forgets nothing at a restart), number of partitions,
--          version of the data, heartbeat timeout
-- RETURNS  the number of partitions on record, the version of the data on record
--
-- Called when a role starts and whenever it meets another server: one that forgets its last second must not forget with a
-- first claim that it was another one, nor that there was one in between.
register('open', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  if redis.call('HEXISTS', P, 'partitions') == 0 then
    redis.call('HSET', P, 'partitions', args[4], 'data', args[5], 'created', fmt(now))
  end
  note_server(P, args[2], args[3], now, tonumber(args[6]))
  local record = redis.call('HMGET', P, 'partitions', 'data')
  return {record[1], record[2] or '1'}  -- the first release did not write it down
end)
