-- get_jobs: reads jobs
-- KEYS[1]  the partition's record
-- ARGV     now, scopes ("" = all; see scopes.lua), then the names. Of a job of another lambda nothing is read that one which is not there has not,
--          either
-- RETURNS  per job {} where there is none, or {generation, made at, spec, next tick ("" = it has ended), ticks, paused ("" = no),
--          last tick, its task, how that ended, ticks passed over, why, overlap policy, base, rhythm, a tick that has not ended ("" = none)}
register('get_jobs', {'no-writes'}, function(keys, args)
  local P, answer, bound = keys[1], {}, scopes.read(args[2])
  for i = 3, #args do
    local hidden = bound and not scopes.has(bound, redis.call('HGET', job_key(P, args[i]), 'l'))
    local job = hidden and {''} or redis.call('HMGET', job_key(P, args[i]), 'g', 'at', 'spec', 'n', 'k', 'p', 'last', 'task', 'out', 'skips', 'why', 'o', 'b', 'r')
    for field = 1, #job do job[field] = job[field] or '' end
    if job[1] ~= '' then
      job[#job + 1] = redis.call('ZRANGE', ticks.key(P, args[i]), ticks.ORPHAN, ticks.HELD, 'BYSCORE', 'LIMIT', 0, 1)[1] or ''
    end
    answer[#answer + 1] = job[1] ~= '' and job or {}
  end
  return answer
end)
