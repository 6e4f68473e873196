-- announce: notes that a process of a role lives, and its host with it, and tells which of some warnings nobody has said who lives
-- KEYS[1]  the registry partition's record
-- ARGV     now, the process ("<role> <version> <name>"), how long it counts as alive, the worker host of which it is the controller ("" = of none:
--          what `serve` said of the host before holds for as long), then a name for each warning
-- RETURNS  per warning 1 nobody has said it, 0 somebody has
register('announce', {'allow-oom'}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  local roles, said, till = P .. ':roles', P .. ':said', fmt(now + tonumber(args[3]))
  for _, set in ipairs({roles, said}) do liveness.strike_off(set, now) end
  redis.call('ZADD', roles, till, args[2])
  if args[4] ~= '' then redis.call('ZADD', P .. ':hosts', 'XX', 'GT', till, args[4]) end
  for i = 5, #args do answer[#answer + 1] = redis.call('ZADD', said, till, args[i]) end
  return answer
end)
