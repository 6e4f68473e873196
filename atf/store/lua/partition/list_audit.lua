-- list_audit: entries of the audit log, newest first
-- KEYS[1]  the registry partition's record
-- ARGV     now, number of the first one that is not wanted ("" = from the newest), entries at most
-- RETURNS  "<number> <when it was written>", a line break, the entry; ...
register('list_audit', {'no-writes'}, function(keys, args)
  local before = args[2] == '' and '+inf' or '(' .. args[2]
  return redis.call('ZRANGE', keys[1] .. ':audit', before, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, fmt(tonumber(args[3])))
end)
