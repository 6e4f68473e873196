-- run_job_now: stores a task of a job, beside its ticks
-- MOVES    schedule: (no record) -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, job, id, queue, spec, digest, limits ("" = defaults), affinity key ("" = none), labels ("" = none),
--          entries of the index ("" = none), the generation that is meant ("" = whichever it has)
-- RETURNS  {what, at}: what is 0 stored, 1 the same request was stored before, 2 another request holds the id, 3 there is no such job
register('run_job_now', {}, pushing.around(function(keys, args)
  local P, now, name, id, queue = keys[1], instant(args[1]), args[2], args[3], args[4]
  local digest, scheduled_at = fields_of(task_key(P, id), 'd', 'at')
  if digest then return {digest == args[6] and 1 or 2, scheduled_at or '0'} end
  local generation = redis.call('HGET', job_key(P, name), 'g')
  if not generation or args[11] ~= '' and generation ~= args[11] then return {3, '0'} end
  ticks.store(P, name, ticks.BESIDE, id, queue, fmt(now), args[6], args[5], now, {'lim', args[7], 'af', args[8], 'lb', args[9], 'ix', args[10]})
  return {0, fmt(now)}
end))
