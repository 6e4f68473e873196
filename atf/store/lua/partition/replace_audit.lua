-- replace_audit: adds entries to the audit log in the place of as many of the oldest, for a store that is full
-- KEYS[1]  the registry partition's record
-- ARGV     now, then the entries
-- RETURNS  1
register('replace_audit', {'allow-oom'}, function(keys, args)
  registry.audit(keys[1], instant(args[1]), args, true)
  return 1
end)
