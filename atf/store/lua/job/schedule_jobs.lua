-- schedule_jobs: makes jobs, or replaces them
-- MOVES    cancel: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; run for the last time: CLAIMED, PROCESSING
-- KEYS[1]  the partition's record
-- ARGV     now, then per job: name, request id ("" = none), what of a job that has the name (see below), spec, overlap policy, the tick to
--          come ("" = from now on it has none), ticks before it, 1 paused (a job that is replaced stays as it is), base (what the durations
--          of its timing count from), rhythm (two jobs with the same one tick alike from the same base), the generation of the one job that it
--          may replace ("" = any; "0" = none), the lambda of its tasks
-- RETURNS  per job: what, generation, when it was made: 0 made, 1 this very request had made it before, 2 the name is taken, 3 replaced,
--          4 the job before it has more tasks than one call cancels: call again, 5 it would have to begin anew, and has no tick: nothing was
--          stored; the generation is then that of the job that has the name (0 = there is none, or it has ended)
--
-- A job that has the name:  0  it stays
--                           1  it is replaced; where the rhythm is the same, the new one goes on from where it stands
--                           2  the same, also where it has ended: then the new one has, too
--                           3  it is replaced as if it had been deleted: its tasks are cancelled, and the new one begins anew
-- With 1 and 2 the ticks of the job before are the new one's.

local function schedule_job(P, now, budget, name, request, how, spec, overlap, first_tick, count, begins_paused, base, rhythm, may_replace, of)
  local key = job_key(P, name)
  local generation, request_before, next_tick, paused, made_at, rhythm_before = fields_of(job_key(P, name), 'g', 'd', 'n', 'p', 'at', 'r')
  local lives = generation and next_tick ~= ''
  if generation and request ~= '' and request_before == request then return {1, tonumber(generation), made_at} end
  if may_replace ~= '' and (generation or '0') ~= may_replace then return {2, tonumber(generation or 0), made_at or '0'} end
  if lives and how == '0' then return {2, tonumber(generation), made_at} end
  if how == '3' then
    local _, more = ticks.cancel(P, name, budget, now)
    if more then return {4, 0, '0'} end
  elseif generation and rhythm_before == rhythm and (lives or how == '2') then  -- mutant: registered_anew
    local new = redis.call('HINCRBY', P, 'job_generation', 1)
    redis.call('HSET', key, 'g', new, 'd', request, 'spec', spec, 'o', overlap, 'l', of)
    if lives and not paused then ticks.look_at_job(P, name, tonumber(next_tick)) end  -- by another policy it may not have to wait
    return {3, new, made_at}
  end
  if first_tick == '' then return {5, lives and tonumber(generation) or 0, '0'} end
  local new = redis.call('HINCRBY', P, 'job_generation', 1)  -- of the partition: a deleted job's never comes again
  -- Also one that has ended stays paused while ticks of it are kept: they must not be forgotten.
  local stays_paused = paused and (lives or redis.call('ZCOUNT', ticks.key(P, name), ticks.HELD, ticks.HELD) > 0)
  local is_paused = stays_paused or not lives and begins_paused == '1'
  redis.call('DEL', key)
  redis.call('HSET', key, 'g', new, 'd', request, 'at', fmt(now), 'spec', spec, 'o', overlap, 'l', of, 'n', first_tick, 'k', count, 'b', base, 'r', rhythm)
  if is_paused then redis.call('HSET', key, 'p', '1') end
  redis.call('ZADD', P .. ':jobnames', 0, name)
  redis.call('ZREM', P .. ':jobs:ended', name)
  if is_paused then redis.call('ZREM', P .. ':jobs', name) else ticks.look_at_job(P, name, tonumber(first_tick)) end
  return {lives and 3 or 0, new, fmt(now)}
end

register('schedule_jobs', {}, function(keys, args)
  local now, reply, budget = instant(args[1]), {}, {left = TICKS_PER_CALL}
  for i = 2, #args, 12 do
    reply[#reply + 1] = schedule_job(keys[1], now, budget, unpack(args, i, i + 11))
  end
  return reply
end)
