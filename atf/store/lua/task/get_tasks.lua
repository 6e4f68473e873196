-- get_tasks: reads whole tasks
-- KEYS[1]  the partition's record
-- ARGV     now, then the ids
-- RETURNS  per id {next instant ("" = none), field, value, ...}; {""} = no such task
register('get_tasks', {'no-writes'}, function(keys, args)
  local P, answer = keys[1], {}
  for i = 2, #args do
    local task = redis.call('HGETALL', task_key(P, args[i]))
    local status, queue
    for j = 1, #task, 2 do
      if task[j] == 's' then status = task[j + 1] elseif task[j] == 'q' then queue = task[j + 1] end
    end
    if not queue then
      answer[#answer + 1] = {''}
    else
      local score = not FINISHED[status] and redis.call('ZSCORE', live_key(P, queue, status), args[i])
      table.insert(task, 1, score or '')
      answer[#answer + 1] = task
    end
  end
  return answer
end)
