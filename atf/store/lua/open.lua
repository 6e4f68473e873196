-- open: makes the partition's record where there is none
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), durable, number of partitions, version of the data
-- RETURNS  the number of partitions on record, the version of the data on record
--
-- It notes the server too: a server that forgets its last second must not forget with a first claim that it was another one.
register('open', {'allow-oom'}, function(keys, args)
  local P = keys[1]
  if redis.call('HEXISTS', P, 'partitions') == 0 then
    redis.call('HSET', P, 'partitions', args[4], 'data', args[5], 'created', fmt(instant(args[1])))
  end
  if args[2] ~= '' then redis.call('HSETNX', P, 'server', args[2]) end
  local record = redis.call('HMGET', P, 'partitions', 'data')
  return {record[1], record[2] or '1'}  -- the first release did not write it down
end)
