-- open_partition: makes the partition's record where there is none, and notes the server
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), what it remembers (see store_clock.note_server), number of partitions,
--          version of the data, heartbeat timeout, 1 = put it on record where none is
-- RETURNS  what is on record: number of partitions, version of the data, heartbeat timeout (where none is, the given one), and
--          the instant at which it was made
--
-- Called when a role starts and whenever it meets another server: one that forgets its last second must not forget with a
-- first claim that it was another one, nor that there was one in between.
register('open_partition', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local server, memory, wanted, version, given_timeout, on_record = unpack(args, 2)
  if redis.call('HEXISTS', P, 'partitions') == 0 then
    redis.call('HSET', P, 'partitions', wanted, 'data', version, 'created', fmt(now))
  end
  store_clock.note_server(P, server, memory, now, tonumber(given_timeout))
  local partitions, data, timeout, created = fields_of(P, 'partitions', 'data', 'timeout', 'created')
  if not timeout and on_record == '1' then redis.call('HSET', P, 'timeout', given_timeout) end
  return {partitions, data, timeout or given_timeout, created}
end)
