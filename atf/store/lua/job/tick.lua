-- tick: the tick that a job has reached becomes a task, or is passed over; the job goes on to its next one
-- MOVES    schedule: (no record) -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, then per job: name, generation, tick that it must stand at, next tick ("" = none: the job ends), ticks passed over,
--          why ("" = none were), retention of its record, and the task: its tick, when it is due, id ("" = none), queue, spec,
--          limits ("" = defaults), labels ("" = none), entries of the index ("" = none)
-- RETURNS  per job 1 done, 0 not: somebody else has done it, or the job is another one now
register('tick', {}, pushing.around(function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  for i = 2, #args, 15 do
    local name, at_generation, at_tick, following, passed, why, retention, tick, at, id, queue, spec, limits, labels, entries = unpack(args, i, i + 14)
    local key = job_key(P, name)
    local generation, next_tick, paused = fields_of(job_key(P, name), 'g', 'n', 'p')
    if generation ~= at_generation or next_tick ~= at_tick or paused then  -- mutant: tick_twice
      answer[#answer + 1] = 0
    else
      if id ~= '' then
        if redis.call('EXISTS', task_key(P, id)) == 0 then
          ticks.store(P, name, ticks.TICK, id, queue, at, '', spec, now, {'lim', limits, 'lb', labels, 'ix', entries})
        end
        redis.call('HINCRBY', key, 'k', 1)
        redis.call('HSET', key, 'last', tick, 'task', id, 'out', '')
      end
      if passed ~= '0' then
        redis.call('HINCRBY', key, 'skips', passed)
        redis.call('HSET', key, 'why', why)
      end
      redis.call('HSET', key, 'n', following)
      if following == '' then
        redis.call('ZREM', P .. ':jobs', name)
        redis.call('ZREM', P .. ':jobnames', name)
        redis.call('ZADD', P .. ':jobs:ended', fmt(now + tonumber(retention)), name)
      else
        ticks.look_at_job(P, name, math.max(tonumber(following), now))  -- behind those that have waited: one that catches up is fair
      end
      answer[#answer + 1] = 1
    end
  end
  return answer
end))
