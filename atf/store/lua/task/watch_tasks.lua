-- watch_tasks: marks unfinished tasks, so that their end is notified ("done")
-- KEYS[1]  the partition's record
-- ARGV     now, then the ids
-- RETURNS  per id its status ("" = no such task)
register('watch_tasks', {'allow-oom'}, function(keys, args)
  local P, answer = keys[1], {}
  for i = 2, #args do
    local status = redis.call('HGET', task_key(P, args[i]), 's')
    if not status or status == 'TOMBSTONE' then
      answer[#answer + 1] = ''
    else
      if not FINISHED[status] and redis.call('HEXISTS', task_key(P, args[i]), 'w') == 0 then
        redis.call('HSET', task_key(P, args[i]), 'w', '1')  -- a job's tick has it from the beginning
      end
      answer[#answer + 1] = status
    end
  end
  return answer
end)
