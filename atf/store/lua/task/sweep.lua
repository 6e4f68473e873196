-- sweep: SUCCESS, FATAL_FAILURE, CANCELLED whose retention is over, that are too many, or that have to make room -> (no record)
-- KEYS[1]  the partition's record
-- ARGV     now, finished tasks kept per lambda and status, records at most, 1 = finished tasks have to make room where nothing else is to go
-- RETURNS  records removed or reduced, and batches looked at
--
-- While tasks are alive a call removes fewer: they wait behind it.
-- An id stays taken for a while after its task finished: its record shrinks to a tombstone that only a retried Schedule sees.
local SWEPT_BESIDE = 64  -- records at most, where queues have live tasks
-- The order in which they have to make room.
local FIRST_TO_GO = {'SUCCESS', 'CANCELLED', 'FATAL_FAILURE'}  -- mutant: failures_go_first

local function drop(P, id, name, now)
  local key = task_key(P, id)
  local digest, scheduled_at, succeeded, failed, cancelled, apart, entries = fields_of(key, 'd', 'at', 't5', 't7', 't8', 'ap', 'ix')
  if entries then index.leave(P, writes.AT_ONCE, id, name, entries) end  -- mutant: index_entry_left
  local finished = math.max(tonumber(succeeded or 0), tonumber(failed or 0), tonumber(cancelled or 0))
  record.drop(P, id, apart)
  if digest and finished + TOMBSTONE > now then
    redis.call('HSET', key, 's', 'TOMBSTONE', 'd', digest, 'at', scheduled_at)
    redis.call('ZADD', P .. ':tombs', fmt(finished + TOMBSTONE), id)
  end
end

-- Removes tasks from the finished set of a lambda, and their records.
local function remove(P, list, name, ids, now)
  if #ids == 0 then return end
  for _, id in ipairs(ids) do drop(P, id, name, now) end
  redis.call('ZREM', done_key(P, list), unpack(ids))
  redis.call('ZREM', created_key(P, name), unpack(ids))
end

-- Removes the oldest tasks of some finished sets together. Returns how many.
local function remove_oldest(P, sets, most, now)
  local m, ids, removed = merge.open({oldest = true}), {}, 0
  for _, list in ipairs(sets) do
    merge.add(m, done_key(P, list), nil, list)
    ids[list] = {}
  end
  while removed < most do
    local id, _, list = merge.next(m)
    if not id then break end
    ids[list][#ids[list] + 1] = id
    removed = removed + 1
  end
  for _, list in ipairs(sets) do remove(P, list, (lists.parts(list)), ids[list], now) end
  return removed
end

-- Removes finished tasks whose retention is over, and the names of lists that are empty. Returns how many tasks, and the sets that are left, but
-- for those of items, which go with their batch: together those of one lambda and status, which follow one another by name.
local function sweep_expired(P, now, budget)
  local swept, groups, group = 0, {}, {}
  for _, list in ipairs(redis.call('ZRANGE', beside_key(P, 'lists'), 0, -1)) do
    local name, status, retention = lists.parts(list)
    local key = name and done_key(P, list) or created_key(P, list)
    local there = redis.call('ZCARD', key)
    if there == 0 then
      lists.forget(P, list)
    elseif name and retention < ITEM_RETENTION then
      local ids = redis.call('ZRANGE', key, '-inf', fmt(now - retention), 'BYSCORE', 'LIMIT', 0, fmt(budget - swept))  -- mutant: swept_early
      remove(P, list, name, ids, now)
      swept = swept + #ids
      if group.name ~= name or group.status ~= status then
        group = {name = name, status = status, count = 0}
        groups[#groups + 1] = group
      end
      group[#group + 1], group.count = list, group.count + there - #ids
    end
    if swept == budget then break end
  end
  return swept, groups
end

-- Removes finished tasks whose time is over, or that are too many. Returns how many.
local function sweep_finished(P, kept, now, budget)
  local swept, groups = sweep_expired(P, now, budget)
  for _, group in ipairs(groups) do
    local excess = math.min(group.count - kept, budget - swept)
    if excess > 0 then swept = swept + remove_oldest(P, group, excess, now) end
  end
  return swept, groups
end

-- Removes the oldest finished tasks before their time is over; of all lambdas together, but one status after the other.
local function make_room(P, groups, now, budget)
  local removed = 0
  for _, status in ipairs(FIRST_TO_GO) do
    local sets = {}
    for _, group in ipairs(groups) do
      for _, list in ipairs(group.status == status and group or NOTHING) do sets[#sets + 1] = list end
    end
    removed = removed + remove_oldest(P, sets, budget - removed, now)
  end
  if removed > 0 then redis.call('HSET', P, 'early', fmt(now)) end
  return removed
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
  misfits.tidy(P)
  roster.strike(P, now)
  if redis.call('EXISTS', P .. ':due') == 1 then budget = math.min(budget, SWEPT_BESIDE) end
  local swept, groups = sweep_finished(P, kept, now, budget)
  if swept >= budget then return swept end
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
  if swept == 0 and args[4] == '1' then swept = make_room(P, groups, now, budget) end
  return swept
end)
