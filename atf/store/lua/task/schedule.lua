-- schedule: stores tasks; each is due at its instant
-- MOVES    schedule: (no record) -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, then per task: id, queue, spec, digest, at ("" = after delay), delay, limits ("" = defaults),
--          lambda:ordering key ("" = none), concurrency ("" = none, else "lambda:key limit policy"),
--          unique ("" = it is not, else "lambda:key window policy", and "j" behind it where it may only join another task), affinity
--          key ("" = none)
-- RETURNS  per task {what, at, id}: what is 0 stored, 1 the same request was stored before, 2 another request holds the id, 3 it may only
--          join and no task stands for it; id is that of the task that stands for it where it was not the first of its window, else ""
local THROTTLE = '0'
local MAX_UNPACKED = 1000

-- The records of a call's tasks; and whether none of them is there yet, as mostly, which is told by few calls instead of one per task.
local function records_of(P, args)
  if #args == 12 then return {task_key(P, args[2])}, false end  -- of one task the same call answers all that is asked
  local records, named, all_new = {}, {}, true
  for i = 2, #args, 11 do
    local record = task_key(P, args[i])
    if named[record] then all_new = false end
    named[record] = true
    records[#records + 1] = record
  end
  for first = 1, all_new and #records or 0, MAX_UNPACKED do
    if redis.call('EXISTS', unpack(records, first, math.min(first + MAX_UNPACKED - 1, #records))) > 0 then return records, false end
  end
  return records, all_new
end

-- The task of a unique key's window, where that has not ended; its queue, ordering key and whether it can still be put off. None where
-- the task was cancelled and never ran: the key is free again.
local function of_window(P, key, now)
  local until_ = redis.call('ZSCORE', P .. ':uniques:expiry', key)
  if not until_ or tonumber(until_) <= now then return nil end  -- mutant: window_forgotten
  local id = redis.call('HGET', P .. ':uniques', key)
  local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'k', 'at')
  if task[1] == 'CANCELLED' and run_log.never_ran(P, id) then return nil end
  return id, task, task[1] == 'NEW' and tonumber(task[4]) > now
end

local function open_window(P, key, id, until_)
  redis.call('HSET', P .. ':uniques', key, id)
  redis.call('ZADD', P .. ':uniques:expiry', fmt(until_), key)
end

-- A task that is not due yet takes the place of the one that was to run: what it is, and when.
local function put_off(P, id, task, queue, at, spec, limits, concurrency, affinity)
  local waits = task[3] and redis.call('LINDEX', order_key(P, task[3]), 0) ~= id
  if task[2] ~= queue then redis.call('ZREM', live_key(P, task[2], 'NEW'), id) end
  redis.call('ZADD', live_key(P, queue, 'NEW'), waits and '+inf' or fmt(at), id)
  redis.call('HDEL', task_key(P, id), 'lim', 'kc', 'af')
  redis.call('HSET', task_key(P, id), 'q', queue, 'at', fmt(at), 'spec', spec)
  if limits ~= '' then redis.call('HSET', task_key(P, id), 'lim', limits) end
  if concurrency ~= '' then redis.call('HSET', task_key(P, id), 'kc', concurrency) end
  if affinity ~= '' then redis.call('HSET', task_key(P, id), 'af', affinity) end
end

-- A request that is answered with another one's task: the same request again finds that, whatever its window is by then.
local function stands_for(P, id, digest, other, at, now)
  redis.call('HSET', task_key(P, id), 's', 'TOMBSTONE', 'd', digest, 'at', at, 'u', other)
  redis.call('ZADD', P .. ':tombs', fmt(now + TOMBSTONE), id)
end

local function store_each(sets, P, now, args, records, all_new, answers, earliest, keyed)
  for i = 2, #args, 11 do
    local record = records[(i + 9) / 11]
    local id, queue, spec, digest, limits = args[i], args[i + 1], args[i + 2], args[i + 3], args[i + 6]
    local ordering, concurrency = args[i + 7], args[i + 8]
    local known = all_new and NOTHING or redis.call('HMGET', record, 'd', 'at')
    if known[1] then  -- mutant: schedule_overwrites
      local other = redis.call('HGET', task_key(P, id), 'u') or ''
      answers[#answers + 1] = {known[1] == digest and 1 or 2, known[2] or '0', other}
    else
      local at = args[i + 4] ~= '' and tonumber(args[i + 4]) or now + tonumber(args[i + 5])  -- mutant: delay_ignored
      at = math.max(at, now)
      local unique, window, policy, joins
      if args[i + 9] ~= '' then unique, window, policy, joins = string.match(args[i + 9], '^(%S+) (%d+) (%d)(j?)$') end
      local first, task, may_wait
      if unique then
        first, task, may_wait = of_window(P, unique, now)
        if policy ~= THROTTLE then at = math.max(at, now + tonumber(window)) end
      end
      if concurrency ~= '' then keyed[queue] = true end
      if first and (policy == THROTTLE or may_wait) then
        if policy ~= THROTTLE then
          put_off(P, first, task, queue, at, spec, limits, concurrency, args[i + 10])
          open_window(P, unique, first, at)
          earliest[queue] = math.min(earliest[queue] or at, at)
        end
        local when = policy ~= THROTTLE and fmt(at) or task[4] or '0'
        stands_for(P, id, digest, first, when, now)
        answers[#answers + 1] = {1, when, first}
      elseif joins == 'j' then
        answers[#answers + 1] = {3, '0', ''}
      else
        local score = at
        if ordering ~= '' then
          if redis.call('RPUSH', order_key(P, ordering), id) > 1 then score = nil end  -- waits behind another  -- mutant: no_order
        end
        redis.call('HSET', record, 's', 'NEW', 'q', queue, 'at', fmt(at), 't1', fmt(now), 'd', digest, 'spec', spec)
        if limits ~= '' then redis.call('HSET', record, 'lim', limits) end
        if ordering ~= '' then redis.call('HSET', record, 'k', ordering) end
        if concurrency ~= '' then redis.call('HSET', record, 'kc', concurrency) end
        if unique then redis.call('HSET', record, 'uk', unique) end
        if args[i + 10] ~= '' then redis.call('HSET', record, 'af', args[i + 10]) end
        -- at once, where the next request of this call may put it off
        local written = unique and writes.AT_ONCE or sets
        written.ZADD(live_key(P, queue, 'NEW'), score and fmt(score) or '+inf', id)
        if unique then open_window(P, unique, id, policy == THROTTLE and now + tonumber(window) or at) end
        if score then earliest[queue] = math.min(earliest[queue] or score, score) end
        answers[#answers + 1] = {0, fmt(at), ''}
      end
    end
  end
end

register('schedule', {}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answers, earliest, keyed = {}, {}, {}
  local records, all_new = records_of(P, args)
  writes.gather(#records, store_each, P, now, args, records, all_new, answers, earliest, keyed)
  for queue in pairs(keyed) do redis.call('HSET', queue_key(P, queue), 'keyed', '1') end
  due_index.visit_all_by(P, earliest)
  return answers
end)
