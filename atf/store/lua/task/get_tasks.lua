-- get_tasks: reads whole tasks
-- KEYS[1]  the partition's record
-- ARGV     now, scopes ("" = all; see scopes.lua), then the ids. Of a task of another one nothing is read that one which is not there has not, either
-- RETURNS  per id {next instant ("" = none), field, value, ...}, of the log only that there is one; {""} = no such task
register('get_tasks', {'no-writes'}, function(keys, args)
  local P, answer, bound = keys[1], {}, scopes.read(args[2])
  for i = 3, #args do
    local of = bound and redis.call('HGET', task_key(P, args[i]), 'q')
    local hidden = bound and not (of and scopes.has(bound, lambda_of(of)))
    local task = hidden and NOTHING or redis.call('HGETALL', task_key(P, args[i]))
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
