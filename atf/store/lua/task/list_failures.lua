-- list_failures: a page of the groups of failures that have dead letters here, that of the newest one first
-- KEYS[1]  the partition's record
-- ARGV     now, what their names begin with, since when, instant and name of the group that the page goes on behind ("", "" = from the
--          start), groups at most, looked at, at most
-- RETURNS  instant and name of the last one that was looked at, where there are more ("" = that was all), then instant, name, ...
register('list_failures', {'no-writes'}, function(keys, args)
  local P, beginning, most, left = keys[1], args[2], tonumber(args[6]), tonumber(args[7])
  local m = {oldest = false, since = tonumber(args[3])}
  if args[5] ~= '' then m.from, m.after = tonumber(args[4]), args[5] end
  merge.open(m)
  merge.add(m, beside_key(P, 'groups'))
  local answer = {'', ''}
  while left > 0 and #answer < 2 + 2 * most do
    local group, at = merge.next(m)
    if not group then break end
    left, answer[1], answer[2] = left - 1, fmt(at), group
    if string.sub(group, 1, #beginning) == beginning then answer[#answer + 1], answer[#answer + 2] = answer[1], group end
  end
  if not merge.goes_on(m) then answer[1], answer[2] = '', '' end
  return answer
end)
