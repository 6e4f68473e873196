-- get_log: reads what is kept of what a task's runs said
-- KEYS[1]  the partition's record
-- ARGV     now, id
-- RETURNS  {status, queue, log (see kept_log.lua)}; {} = no such task
register('get_log', {'no-writes'}, function(keys, args)
  local P, id = keys[1], args[2]
  local status, queue, log = fields_of(task_key(P, id), 's', 'q', 'log')
  if not queue then return {} end
  return {status, queue, log and record.get(P, id, 'log', log) or ''}
end)
