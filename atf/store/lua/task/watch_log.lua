-- watch_log: as get_log; and has the task's executor say for a while, with its heartbeats, what the run says, and has its end notified ("done")
-- KEYS[1]  the partition's record
-- ARGV     now, id, how long
-- RETURNS  {status, queue, log (see kept_log.lua)}; {} = no such task
register('watch_log', {'allow-oom'}, function(keys, args)
  local P, id = keys[1], args[2]
  local status, queue, log, watched = fields_of(task_key(P, id), 's', 'q', 'log', 'w')
  if not queue then return {} end
  if not FINISHED[status] then
    local until_at = fmt(instant(args[1]) + tonumber(args[3]))
    redis.call('HSET', P, 'log_watch', until_at)
    redis.call('HSET', task_key(P, id), 'lw', until_at)
    if not watched then redis.call('HSET', task_key(P, id), 'w', '1') end
  end
  return {status, queue, log and record.get(P, id, 'log', log) or ''}
end)
