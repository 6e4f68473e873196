-- note: adds to the audit log
-- KEYS[1]  the home partition's record
-- ARGV     now, entry
-- RETURNS  1
register('note', {'allow-oom'}, function(keys, args)
  log_entry(keys[1], instant(args[1]), args[2])
  return 1
end)
