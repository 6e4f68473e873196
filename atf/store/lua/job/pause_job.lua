-- pause_job: pauses a job, or lets it go on, and with it its ticks that wait: these are never due, or due again when they would have been
-- MOVES    hold, go on: NEW, RETRIABLE_FAILURE; hold back: ENQUEUED -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, name, 1 paused or 0, the generation that is meant ("" = whichever it has)
-- RETURNS  {what, its live tasks}: what is 1 done, 0 no such job, or it has ended and has no live tasks, 2 it has more ticks than one call
--          deals with: call again. One of another generation is no such job
register('pause_job', {'allow-oom'}, function(keys, args)
  local P, now, name = keys[1], instant(args[1]), args[2]
  local generation, next_tick = fields_of(job_key(P, name), 'g', 'n')
  if args[4] ~= '' and generation ~= args[4] then return {0, 0} end
  local tasks = redis.call('ZCOUNT', ticks.key(P, name), ticks.TICK, ticks.BESIDE)
  if not generation or next_tick == '' and tasks == 0 then return {0, tasks} end
  if args[3] == '1' then
    redis.call('HSET', job_key(P, name), 'p', '1')
    redis.call('ZREM', P .. ':jobs', name)
    if ticks.hold_all(P, name, now) then return {2, tasks} end  -- mutant: pause_lets_ticks_through
  else
    if ticks.release(P, name, now) then return {2, tasks} end  -- until the last, it is paused
    redis.call('HDEL', job_key(P, name), 'p')
    if next_tick ~= '' then ticks.look_at_job(P, name, tonumber(next_tick)) end
  end
  return {1, tasks}
end)
