-- set_token: makes or replaces a token, if it is as the caller has read it
-- KEYS[1]  the registry partition's record
-- ARGV     now, id, text that was read ("" = there was none), text from now on ("" = none any more)
-- RETURNS  1, or 0 = another has changed it
register('set_token', {'allow-oom'}, function(keys, args)
  local now, id, read, text = instant(args[1]), args[2], args[3], args[4]
  local key = tokens.key(keys[1], id)
  local before = redis.call('HGET', key, id) or ''
  if before == text then return 1 end  -- also where the answer to the same call was lost
  if before ~= read then return 0 end
  local version = math.max(tokens.version(keys[1], true) + 1, now)  -- so that a store that has forgotten some gives none of them again
  if text == '' then redis.call('HDEL', key, id) else redis.call('HSET', key, id, text) end
  redis.call('HSET', key, 'version', fmt(version))
  return 1
end)
