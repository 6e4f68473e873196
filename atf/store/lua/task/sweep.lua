-- sweep: SUCCESS, FATAL_FAILURE, CANCELLED whose retention is over, or that are too many -> (no record)
-- KEYS[1]  the partition's record
-- ARGV     now, finished tasks kept per lambda and status, records at most
-- RETURNS  records removed or reduced, and batches looked at
--
-- While tasks are alive a call removes fewer: they wait behind it.
-- An id stays taken for a while after its task finished: its record shrinks to a tombstone that only a retried Schedule sees.
local SWEPT_BESIDE = 64  -- records at most, where queues have live tasks

local function drop(P, id, now)
  local key = task_key(P, id)
  local task = redis.call('HMGET', key, 'd', 'at', 't5', 't7', 't8')
  local finished = math.max(tonumber(task[3] or 0), tonumber(task[4] or 0), tonumber(task[5] or 0))
  redis.call('DEL', key)
  if task[1] and finished + TOMBSTONE > now then
    redis.call('HSET', key, 's', 'TOMBSTONE', 'd', task[1], 'at', task[2])
    redis.call('ZADD', P .. ':tombs', fmt(finished + TOMBSTONE), id)
  end
end

register('sweep', {'allow-oom'}, function(keys, args)
  local P, now, kept, budget = keys[1], instant(args[1]), tonumber(args[2]), tonumber(args[3])
  local swept = 0
  misfits.tidy(P)
  roster.strike(P, now)
  if redis.call('EXISTS', P .. ':due') == 1 then budget = math.min(budget, SWEPT_BESIDE) end
  for _, member in ipairs(redis.call('SMEMBERS', P .. ':sweep')) do
    local name, status = string.match(member, '^(.*):([A-Z_]+)$')
    local set = done_key(P, name, status)
    local excess = redis.call('ZCOUNT', set, '-inf', fmt(ITEM_RETENTION)) - kept  -- without items, which go with their batch
    local ids = {}
    if excess > 0 then ids = redis.call('ZRANGE', set, 0, fmt(math.min(excess, budget - swept) - 1)) end
    if #ids == 0 then
      ids = redis.call('ZRANGE', set, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))
    end
    for _, id in ipairs(ids) do drop(P, id, now) end
    if #ids > 0 then redis.call('ZREM', set, unpack(ids)) end
    swept = swept + #ids
    if redis.call('EXISTS', set) == 0 then redis.call('SREM', P .. ':sweep', member) end
    if swept >= budget then return swept end
  end
  local jobs = redis.call('ZRANGE', P .. ':jobs:ended', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))
  for _, name in ipairs(jobs) do
    if redis.call('EXISTS', ticks.key(P, name)) == 1 then  -- it can be paused and deleted for as long as it has live tasks
      redis.call('ZADD', P .. ':jobs:ended', fmt(now + JOB_ENDS), name)
    else
      redis.call('DEL', job_key(P, name))
      redis.call('ZREM', P .. ':jobs:ended', name)
    end
  end
  swept = swept + #jobs
  local batches = redis.call('ZRANGE', P .. ':batches:ended', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(math.min(BATCHES_PER_SWEEP, budget - swept)))
  for _, batch in ipairs(batches) do sweep_batch(P, batch, now) end
  swept = swept + #batches
  local open = redis.call('ZRANGE', P .. ':batches:open', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(math.min(BATCHES_PER_SWEEP, budget - swept)))
  for _, batch in ipairs(open) do check_batch(P, batch, now) end
  swept = swept + #open
  local old = redis.call('ZRANGE', P .. ':tombs', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))
  for _, id in ipairs(old) do redis.call('DEL', task_key(P, id)) end
  if #old > 0 then redis.call('ZREM', P .. ':tombs', unpack(old)) end
  swept = swept + #old
  local firsts = redis.call('ZRANGE', P .. ':firsts:expiry', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))
  if #firsts > 0 then
    redis.call('HDEL', P .. ':firsts', unpack(firsts))
    redis.call('ZREM', P .. ':firsts:expiry', unpack(firsts))
  end
  swept = swept + #firsts
  local ended = redis.call('ZRANGE', P .. ':uniques:expiry', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))
  if #ended > 0 then
    redis.call('HDEL', P .. ':uniques', unpack(ended))
    redis.call('ZREM', P .. ':uniques:expiry', unpack(ended))
  end
  swept = swept + #ended
  local forgotten = redis.call('ZRANGE', P .. ':near:expiry', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))
  if #forgotten > 0 then
    redis.call('HDEL', P .. ':near', unpack(forgotten))
    redis.call('ZREM', P .. ':near:expiry', unpack(forgotten))
  end
  return swept + #forgotten
end)
