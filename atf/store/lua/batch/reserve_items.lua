-- reserve_items: hands out numbers for more items of a batch, which may have ended: it goes on then, in its next round
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, id of the request ("" = none), how many it has asked for before, how many it asks for now
-- RETURNS  what, the first number: what is 0 handed out, now or before by the same request, 2 the request asked for another number of
--          them before, 3 there is no such batch, 4 it was cancelled, 5 it was deleted
--
-- A request that asks again is about to store what is missing, so the batch partition gives up on nothing for another while.
register('reserve_items', {}, function(keys, args)
  local P, batch, request_id, count = keys[1], args[2], args[3], tonumber(args[5])
  local key, request = batches.key(P, batch), 'x' .. request_id .. '.' .. args[4]
  local digest, gone, deleting, cancelled, main, extra, next_number, ended, before =
    fields_of(key, 'd', 'gone', 'deleting', 'cancelled', 'main', 'extra', 'next', 'ended', request)
  if not digest then return {3, 0} end
  if gone or deleting then return {5, 0} end
  if before and request_id ~= '' then
    local first, asked = string.match(before, '^(%d+) (%d+)$')
    if tonumber(asked) ~= count then return {2, tonumber(first)} end
    redis.call('HDEL', key, 'still')
    return {0, tonumber(first)}
  end
  if cancelled then return {4, 0} end
  local first = tonumber(next_number or main or batches.EXTRA_FIRST)
  redis.call('HSET', key, 'next', fmt(first + count), 'extra', fmt(tonumber(extra or 0) + count))
  if request_id ~= '' then redis.call('HSET', key, request, fmt(first) .. ' ' .. fmt(count)) end
  if ended and count > 0 then
    batches.goes_on(P, batch, instant(args[1]))
    redis.call('HINCRBY', key, 'round', 1)
  end
  return {0, first}
end)
