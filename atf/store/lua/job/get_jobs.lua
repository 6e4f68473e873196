-- get_jobs: reads jobs
-- KEYS[1]  the partition's record
-- ARGV     now, then the names
-- RETURNS  per job {} where there is none, or {generation, made at, spec, next tick ("" = it has ended), ticks, paused ("" = no),
--          last tick, its task, how that ended, ticks passed over, why, overlap policy, base, rhythm, a tick that has not ended ("" = none)}
register('get_jobs', {'no-writes'}, function(keys, args)
  local P, answer = keys[1], {}
  for i = 2, #args do
    local job = redis.call('HMGET', job_key(P, args[i]), 'g', 'at', 'spec', 'n', 'k', 'p', 'last', 'task', 'out', 'skips', 'why', 'o', 'b', 'r')
    for field = 1, #job do job[field] = job[field] or '' end
    job[#job + 1] = redis.call('ZRANGE', ticks.key(P, args[i]), ticks.ORPHAN, ticks.HELD, 'BYSCORE', 'LIMIT', 0, 1)[1] or ''
    answer[#answer + 1] = job[1] ~= '' and job or {}
  end
  return answer
end)
