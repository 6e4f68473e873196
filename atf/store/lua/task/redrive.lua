-- redrive: starts dead letters and cancelled tasks afresh, each due when its turn comes. As `retry_tasks` otherwise.
-- MOVES    redrive: FATAL_FAILURE, CANCELLED -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, scopes ("" = all; see scopes.lua), when the redrive began, then per task: id, after how long it is due
-- RETURNS  per task 1 started afresh, 0 it is neither, or another task holds its unique key
register('redrive', {'allow-oom'}, pushing.around(function(keys, args)
  local P, now, bound, begun, answer = keys[1], instant(args[1]), scopes.read(args[2]), tonumber(args[3]), {}
  for i = 4, #args, 2 do
    local status, queue, ordering = fields_of(task_key(P, args[i]), 's', 'q', 'k')
    local done = (status == 'FATAL_FAILURE' or status == 'CANCELLED') and scopes.has(bound, lambda_of(queue))
    if done then
      local at = math.max(begun + tonumber(args[i + 1]), now)
      done = not moves.start_afresh(P, args[i], queue, status, ordering, now, at)
    end
    answer[#answer + 1] = done and 1 or 0
  end
  return answer
end))
