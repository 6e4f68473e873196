-- judge: how many runs of a lambda have ended within about a minute, and how many of those failed for good
-- KEYS[1]  the partition's record
-- ARGV     now, name
-- RETURNS  ended, failed for good, the share from which on it is paused ("" = never), 1 paused
register('judge', {'allow-oom'}, function(keys, args)
  local P, now, name = keys[1], instant(args[1]), args[2]
  local ended, fatal = run_ends.within(P, name, now)
  local paused, text = fields_of(lambda_key(P, name), 'paused', 'settings')
  return {ended or 0, fatal or 0, registry.settings_of(text).fatal or '', paused == '1' and 1 or 0}
end)
