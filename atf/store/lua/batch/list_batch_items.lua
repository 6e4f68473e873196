-- list_batch_items: a page of the items of a batch that lie here, by number
-- KEYS[1]  the partition's record
-- ARGV     now, batch, number of the first one, items at most, then statuses that are asked for (none = all)
-- RETURNS  number at which the next page begins ("" = that was all), number, work-item id, ...
register('list_batch_items', {'no-writes'}, function(keys, args)
  local P, batch, size = keys[1], args[2], tonumber(args[4])
  local wanted, any = {}, #args == 4
  for i = 5, #args do wanted[args[i]] = true end
  local most = any and size or math.max(size, LOOKED_AT_ITEMS)
  local found = redis.call('ZRANGE', batch_parts.items_key(P, batch), args[3], '+inf', 'BYSCORE', 'LIMIT', 0, fmt(most), 'WITHSCORES')
  local answer, following = {''}, nil
  for i = 1, #found, 2 do
    if #answer > 2 * size then break end
    local id = task_key(P, batch_parts.item_id(P, batch, found[i]))
    if any or wanted[redis.call('HGET', id, 's')] then
      answer[#answer + 1] = found[i + 1]
      answer[#answer + 1] = found[i]
    end
    following = i
  end
  if following and (following + 1 < #found or #found == 2 * most) then answer[1] = fmt(tonumber(found[following + 1]) + 1) end
  return answer
end)
