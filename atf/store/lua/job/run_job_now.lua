-- run_job_now: stores a task of a job, beside its ticks
-- MOVES    schedule: (no record) -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, job, id, queue, spec, digest, limits ("" = defaults), affinity key ("" = none), labels ("" = none)
-- RETURNS  {what, at}: what is 0 stored, 1 the same request was stored before, 2 another request holds the id, 3 there is no such job
register('run_job_now', {}, function(keys, args)
  local P, now, name, id, queue = keys[1], instant(args[1]), args[2], args[3], args[4]
  local digest, scheduled_at = fields_of(task_key(P, id), 'd', 'at')
  if digest then return {digest == args[6] and 1 or 2, scheduled_at or '0'} end
  if redis.call('EXISTS', job_key(P, name)) == 0 then return {3, '0'} end
  redis.call('HSET', task_key(P, id), 's', 'NEW', 'q', queue, 'at', fmt(now), 't1', fmt(now), 'd', args[6], 'spec', args[5], 'w', ticks.BESIDE_OF .. name)
  if args[7] ~= '' then redis.call('HSET', task_key(P, id), 'lim', args[7]) end
  if args[8] ~= '' then redis.call('HSET', task_key(P, id), 'af', args[8]) end
  if args[9] ~= '' then redis.call('HSET', task_key(P, id), 'lb', args[9]) end
  ticks.add(P, name, id, ticks.BESIDE)
  redis.call('ZADD', live_key(P, queue, 'NEW'), fmt(now), id)
  due_index.visit_by(P, queue, now)
  return {0, fmt(now)}
end)
