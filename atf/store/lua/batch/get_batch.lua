-- get_batch: reads what the batch partition knows of it, and counts the items that lie there
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, scopes ("" = all; see scopes.lua)
-- RETURNS  now, what count_items returns, field, value, ...; {} where there is none, it was deleted, or it is of another lambda
register('get_batch', {'no-writes'}, function(keys, args)
  local names = {'at', 'l', 'spec', 'd', 'ret', 'round', 'main', 'extra', 'prefix', 'ended', 'cancelled', 'deleting', 'alone', 'sums', 'err',
    'unmade'}
  local bound = scopes.read(args[3])
  if bound and not scopes.has(bound, redis.call('HGET', batches.key(keys[1], args[2]), 'l')) then return {} end
  local batch = redis.call('HMGET', batches.key(keys[1], args[2]), unpack(names))
  if not batch[1] then return {} end
  local answer = {fmt(instant(args[1])), batch_parts.counted(keys[1], args[2])}
  for i, name in ipairs(names) do
    if batch[i] then answer[#answer + 1] = name; answer[#answer + 1] = batch[i] end
  end
  return answer
end)
