-- add_audit: adds to the audit log
-- KEYS[1]  the registry partition's record
-- ARGV     now, entry
-- RETURNS  1
register('add_audit', {'allow-oom'}, function(keys, args)
  registry.audit(keys[1], instant(args[1]), args[2])
  return 1
end)
