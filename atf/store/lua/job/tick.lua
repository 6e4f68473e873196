-- tick: the tick that a job has reached becomes a task, or is passed over; the job goes on to its next one
-- MOVES    schedule: (no record) -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, then per job: name, generation, tick that it must stand at, next tick ("" = none: the job ends), ticks passed over,
--          why ("" = none were), retention of its record, and the task: its tick, when it is due, id ("" = none), queue, spec,
--          limits ("" = defaults), labels ("" = none)
-- RETURNS  per job 1 done, 0 not: somebody else has done it, or the job is another one now
register('tick', {}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  for i = 2, #args, 14 do
    local name, following, passed = args[i], args[i + 3], tonumber(args[i + 4])
    local tick, at, id, queue = args[i + 7], args[i + 8], args[i + 9], args[i + 10]
    local key = job_key(P, name)
    local generation, next_tick, paused = fields_of(job_key(P, name), 'g', 'n', 'p')
    if generation ~= args[i + 1] or next_tick ~= args[i + 2] or paused then  -- mutant: tick_twice
      answer[#answer + 1] = 0
    else
      if id ~= '' and redis.call('EXISTS', task_key(P, id)) == 0 then
        redis.call('HSET', task_key(P, id), 's', 'NEW', 'q', queue, 'at', at, 't1', fmt(now), 'd', '', 'spec', args[i + 11],
          'w', ticks.OF .. name)
        if args[i + 12] ~= '' then redis.call('HSET', task_key(P, id), 'lim', args[i + 12]) end
        if args[i + 13] ~= '' then redis.call('HSET', task_key(P, id), 'lb', args[i + 13]) end
        redis.call('ZADD', live_key(P, queue, 'NEW'), at, id)
        ticks.add(P, name, id, ticks.TICK)
        due_index.visit_by(P, queue, tonumber(at))
      end
      if id ~= '' then
        redis.call('HINCRBY', key, 'k', 1)
        redis.call('HSET', key, 'last', tick, 'task', id, 'out', '')
      end
      if passed > 0 then
        redis.call('HINCRBY', key, 'skips', passed)
        redis.call('HSET', key, 'why', args[i + 5])
      end
      redis.call('HSET', key, 'n', following)
      if following == '' then
        redis.call('ZREM', P .. ':jobs', name)
        redis.call('ZREM', P .. ':jobnames', name)
        redis.call('ZADD', P .. ':jobs:ended', fmt(now + tonumber(args[i + 6])), name)
      else
        ticks.look_at_job(P, name, math.max(tonumber(following), now))  -- behind those that have waited: one that catches up is fair
      end
      answer[#answer + 1] = 1
    end
  end
  return answer
end)
