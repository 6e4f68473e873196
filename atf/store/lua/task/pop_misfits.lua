-- pop_misfits: takes ids of tasks that do not fit other executors' signatures (misfits.lua); no task changes its state
-- KEYS[1]  the partition's record
-- ARGV     now, the pool that asks ("" = of no name), then per set, as `pop` named it: its name, ids wanted
-- RETURNS  per set {ids}; {"paused"} while no claims are given
register('pop_misfits', {'allow-oom'}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  if not store_clock.gives(P, now) then return {'paused'} end
  for i = 3, #args, 2 do
    local queue = string.match(args[i], '^%S+')
    answer[#answer + 1] = registry.gives_to(P, lambda_of(queue), args[2]) and misfits.take(P, args[i], tonumber(args[i + 1])) or NOTHING
  end
  return answer
end)
