-- audit: entries of the audit log, newest first
-- KEYS[1]  the home partition's record
-- ARGV     now, number of the first one that is not wanted ("" = from the newest), entries at most
-- RETURNS  number, when it was written, entry, ...
register('audit', {'no-writes'}, function(keys, args)
  local P, answer = keys[1], {}
  local before = args[2] == '' and '+inf' or '(' .. args[2]
  for _, each in ipairs(redis.call('ZRANGE', P .. ':audit', before, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, fmt(tonumber(args[3])))) do
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3] = string.match(each, '^(%d+) (%d+)\n(.*)$')
  end
  return answer
end)
