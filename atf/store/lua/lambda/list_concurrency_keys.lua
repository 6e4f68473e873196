-- list_concurrency_keys: the concurrency keys of a lambda for which tasks wait, among a page of all such keys; or one key, as it stands
-- KEYS[1]  the partition's record
-- ARGV     now, lambda, key ("" = those for which tasks wait), score and key of the last one looked at ("", "" = from the start), keys
--          to look at at most
-- RETURNS  how many keys were looked at, score and key of the last one, {key, slots that are taken, limit, tasks that wait, ...}; the
--          limit is that of the task that has waited longest, else of the one that has held its slot longest
register('list_concurrency_keys', {'no-writes'}, function(keys, args)
  local P, name, lines, found = keys[1], args[2], keys[1] .. ':lines', {}
  local function add(key)
    local taken, waits = redis.call('ZCARD', slots_key(P, key)), redis.call('ZCARD', line_key(P, key))
    local id = redis.call('ZRANGE', line_key(P, key), 0, 0)[1] or redis.call('ZRANGE', slots_key(P, key), 0, 0)[1]
    if not id then return end
    local limit = string.match(redis.call('HGET', task_key(P, id), 'kc') or '', ' (%d+) ') or '0'
    for _, each in ipairs({key, taken, limit, waits}) do found[#found + 1] = each end
  end
  if args[3] ~= '' then
    add(name .. ':' .. args[3])
    return {1, '', '', found}
  end
  local start = page_start(lines, args[4], args[5])
  local looked = redis.call('ZRANGE', lines, fmt(start), fmt(start + tonumber(args[6]) - 1), 'WITHSCORES')
  for i = 1, #looked, 2 do
    if string.sub(looked[i], 1, #name + 1) == name .. ':' then add(looked[i]) end
  end
  return {#looked / 2, looked[#looked] or '', looked[#looked - 1] or '', found}
end)
