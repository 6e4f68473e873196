-- schedule_jobs: makes jobs, or replaces them
-- KEYS[1]  the partition's record
-- ARGV     now, then per job: name, request id ("" = none), 1 to replace, spec, overlap policy, the tick to come, ticks before it,
--          1 paused (a job that is replaced stays as it is)
-- RETURNS  per job: what, generation, when it was made: 0 made, 1 this very request had made it before, 2 the name is taken, 3 replaced
local function schedule_job(P, now, name, request, replace, spec, overlap, next_us, ticks, begins_paused)
  local key = job_key(P, name)
  local known = redis.call('HMGET', key, 'g', 'd', 'n', 'run', 'p', 'at')
  local lives = known[1] and known[3] ~= ''
  if known[1] and request ~= '' and known[2] == request then return {1, tonumber(known[1]), known[6]} end
  if lives and replace ~= '1' then return {2, tonumber(known[1]), known[6]} end
  local generation = redis.call('HINCRBY', P, 'job_generation', 1)  -- of the partition: a deleted job's never comes again
  redis.call('DEL', key)
  redis.call('HSET', key, 'g', generation, 'd', request, 'at', fmt(now), 'spec', spec, 'o', overlap, 'n', next_us, 'k', ticks)
  -- A tick of the job before may still run: this one's follow it as they would follow their own.
  if known[4] and known[4] ~= '' then redis.call('HSET', key, 'run', known[4]) end
  local paused = lives and known[5] or not lives and begins_paused == '1'
  if paused then redis.call('HSET', key, 'p', '1') end
  redis.call('ZADD', P .. ':jobnames', 0, name)
  redis.call('ZREM', P .. ':jobs:ended', name)
  if not paused then look_at_job(P, name, tonumber(next_us)) end
  return {lives and 3 or 0, generation, fmt(now)}
end

register('schedule_jobs', {}, function(keys, args)
  local now, reply = instant(args[1]), {}
  for i = 2, #args, 8 do
    reply[#reply + 1] = schedule_job(keys[1], now, unpack(args, i, i + 7))
  end
  return reply
end)
