-- get_tasks: reads whole tasks
-- KEYS[1]  the partition's record
-- ARGV     now, then the ids
-- RETURNS  per id {next instant ("" = none), field, value, ...}, of the log only that there is one; {""} = no such task
register('get_tasks', {'no-writes'}, function(keys, args)
  local P, answer = keys[1], {}
  for i = 2, #args do
    local task = redis.call('HGETALL', task_key(P, args[i]))
    local status, queue
    for j = 1, #task, 2 do
      local field, value = task[j], task[j + 1]
      if field == 's' then status = value elseif field == 'q' then queue = value
      elseif value == record.APART and field ~= 'log' then task[j + 1] = record.get(P, args[i], field, value) end
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
