-- add_audit: adds entries to the audit log, which keeps the newest
-- KEYS[1]  the registry partition's record
-- ARGV     now, then the entries
-- RETURNS  1
register('add_audit', {}, function(keys, args)
  registry.audit(keys[1], instant(args[1]), args)
  return 1
end)
