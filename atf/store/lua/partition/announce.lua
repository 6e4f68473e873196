-- announce: notes that processes of roles live, and tells which of some warnings nobody has said who lives
-- KEYS[1]  the registry partition's record
-- ARGV     now, how long each counts as alive, how many processes and these ("<role> <version> <name>"), then a name for each warning
-- RETURNS  per warning 1 nobody has said it, 0 somebody has
register('announce', {'allow-oom'}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  local roles, said, till, last = P .. ':roles', P .. ':said', fmt(now + tonumber(args[2])), 3 + tonumber(args[3])
  for _, set in ipairs({roles, said}) do liveness.strike_off(set, now) end
  for i = 4, last do redis.call('ZADD', roles, till, args[i]) end
  for i = last + 1, #args do answer[#answer + 1] = redis.call('ZADD', said, till, args[i]) end
  return answer
end)
