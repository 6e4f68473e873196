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
  local digest, scheduled_at, succeeded, failed, cancelled, apart = fields_of(key, 'd', 'at', 't5', 't7', 't8', 'ap')
  local finished = math.max(tonumber(succeeded or 0), tonumber(failed or 0), tonumber(cancelled or 0))
  record.drop(P, id, apart)
  if digest and finished + TOMBSTONE > now then
    redis.call('HSET', key, 's', 'TOMBSTONE', 'd', digest, 'at', scheduled_at)
    redis.call('ZADD', P .. ':tombs', fmt(finished + TOMBSTONE), id)
  end
end

-- Removes finished tasks of a lambda and status: those that are too many, else those whose retention is over. Returns how many.
local function sweep_finished(P, member, kept, now, budget)
  local name, status = string.match(member, '^(.*):([A-Z_]+)$')
  local set, ids = done_key(P, name, status), NOTHING
  local excess = redis.call('ZCOUNT', set, '-inf', fmt(ITEM_RETENTION)) - kept  -- without items, which go with their batch
  if excess > 0 then ids = redis.call('ZRANGE', set, 0, fmt(math.min(excess, budget) - 1)) end
  if #ids == 0 then ids = redis.call('ZRANGE', set, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget)) end
  for _, id in ipairs(ids) do drop(P, id, now) end
  if #ids > 0 then redis.call('ZREM', set, unpack(ids)) end
  if redis.call('EXISTS', set) == 0 then redis.call('SREM', P .. ':sweep', member) end
  return #ids
end

local function sweep_job(P, name, now)
  if redis.call('EXISTS', ticks.key(P, name)) == 1 then  -- it can be paused and deleted for as long as it has live tasks
    redis.call('ZADD', P .. ':jobs:ended', fmt(now + JOB_ENDS), name)
  else
    redis.call('DEL', job_key(P, name))
    redis.call('ZREM', P .. ':jobs:ended', name)
  end
end

-- What else expires: the index that says when, what to do with each, and how many at most (nil: as many as the call has left).
local EXPIRE = {
  {':jobs:ended', sweep_job},
  {':batches:ended', function(P, batch, now) batches.sweep(P, batch, now) end, BATCHES_PER_SWEEP},
  {':batches:open', function(P, batch, now) batches.check(P, batch, now) end, BATCHES_PER_SWEEP},
}
local HASHES = {':firsts', ':uniques', ':near'}  -- each beside an index that says when its fields expire

register('sweep', {'allow-oom'}, function(keys, args)
  local P, now, kept, budget = keys[1], instant(args[1]), tonumber(args[2]), tonumber(args[3])
  local swept = 0
  misfits.tidy(P)
  roster.strike(P, now)
  if redis.call('EXISTS', P .. ':due') == 1 then budget = math.min(budget, SWEPT_BESIDE) end
  for _, member in ipairs(redis.call('SMEMBERS', P .. ':sweep')) do
    swept = swept + sweep_finished(P, member, kept, now, budget - swept)
    if swept >= budget then return swept end
  end
  for _, each in ipairs(EXPIRE) do
    local most = math.min(each[3] or budget, budget - swept)
    local expired = redis.call('ZRANGE', P .. each[1], '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(most))
    for _, name in ipairs(expired) do each[2](P, name, now) end
    swept = swept + #expired
  end
  local tombs = redis.call('ZRANGE', P .. ':tombs', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))
  for _, id in ipairs(tombs) do redis.call('DEL', task_key(P, id)) end
  if #tombs > 0 then redis.call('ZREM', P .. ':tombs', unpack(tombs)) end
  swept = swept + #tombs
  for _, hash in ipairs(HASHES) do
    local expired = redis.call('ZRANGE', P .. hash .. ':expiry', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))
    if #expired > 0 then
      redis.call('HDEL', P .. hash, unpack(expired))
      redis.call('ZREM', P .. hash .. ':expiry', unpack(expired))
    end
    swept = swept + #expired
  end
  return swept
end)
