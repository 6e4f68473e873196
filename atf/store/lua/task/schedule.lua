-- schedule: stores tasks; each is due at its instant
-- MOVES    schedule: (no record) -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, then per task: id, queue, spec, digest, at ("" = after delay), delay, number of the arguments that follow: fields of its
--          record that few tasks have, each behind its name. Behind the unique key `uk` stand the window and the policy, and "j" where the
--          task may only join another one
-- RETURNS  per task {what, at, id}: what is 0 stored, 1 the same request was stored before, 2 another request holds the id, 3 it may only
--          join and no task stands for it; id is that of the task that stands for it where it was not the first of its window, else ""
local THROTTLE = '0'
local MAX_UNPACKED = 1000

-- Where the arguments of each task begin; its record; and whether none of them is there yet, as mostly, which is told by few calls
-- instead of one per task.
local function tasks_of(P, args)
  local starts, records, named, all_new, i = {}, {}, {}, true, 2
  while i <= #args do
    local key = task_key(P, args[i])
    if named[key] then all_new = false end
    named[key] = true
    starts[#starts + 1], records[#records + 1] = i, key
    i = i + 7 + tonumber(args[i + 6])
  end
  for first = 1, all_new and #records or 0, MAX_UNPACKED do
    if redis.call('EXISTS', unpack(records, first, math.min(first + MAX_UNPACKED - 1, #records))) > 0 then all_new = false break end
  end
  return starts, records, all_new
end

-- The task of a unique key's window, where that has not ended; its queue, ordering key and whether it can still be put off. None where
-- the task was cancelled and never ran: the key is free again.
local function of_window(P, key, now)
  local until_ = redis.call('ZSCORE', P .. ':uniques:expiry', key)
  if not until_ or tonumber(until_) <= now then return nil end  -- mutant: window_forgotten
  local id = redis.call('HGET', P .. ':uniques', key)
  local status, queue, ordering, scheduled_at = fields_of(task_key(P, id), 's', 'q', 'k', 'at')
  if status == 'CANCELLED' and run_log.never_ran(P, id) then return nil end
  return {id = id, queue = queue, ordering = ordering, at = scheduled_at, waits = status == 'NEW' and tonumber(scheduled_at) > now}
end

local function open_window(P, key, id, until_)
  redis.call('HSET', P .. ':uniques', key, id)
  redis.call('ZADD', P .. ':uniques:expiry', fmt(until_), key)
end

local REPLACED = {'lim', 'kc', 'af', 'lb', 'ix'}  -- of the fields that few tasks have, those that the newest call of a debounce decides

-- Debounce: a later call of the same window puts the task off. The task keeps its id; what it is to do, and when, are the later call's.
local function put_off(P, task, queue, at, spec, more)
  local id, key = task.id, task_key(P, task.id)
  local behind = task.ordering and redis.call('LINDEX', order_key(P, task.ordering), 0) ~= id
  if task.queue ~= queue then redis.call('ZREM', live_key(P, task.queue, 'NEW'), id) end
  redis.call('ZADD', live_key(P, queue, 'NEW'), behind and '+inf' or fmt(at), id)
  index.replace(P, id, lambda_of(queue), more.ix)
  redis.call('HDEL', key, unpack(REPLACED))
  redis.call('HSET', key, 'q', queue, 'at', fmt(at), 'spec', record.put(P, id, 'spec', spec))
  for _, field in ipairs(REPLACED) do
    if more[field] then redis.call('HSET', key, field, more[field]) end
  end
end

-- A request that is answered with another one's task: the same request again finds that, whatever its window is by then.
local function stands_for(P, id, digest, other, at, now)
  redis.call('HSET', task_key(P, id), 's', 'TOMBSTONE', 'd', digest, 'at', at, 'u', other)
  redis.call('ZADD', P .. ':tombs', fmt(now + TOMBSTONE), id)
end

local function store_each(sets, P, now, args, starts, records, all_new, answers, keyed)
  local now_text = fmt(now)
  local stored_now = {0, now_text, ''}  -- the answer for each that is due now: to make a table costs as much as half a command
  for place, i in ipairs(starts) do
    local key, id, queue, spec, digest, count = records[place], args[i], args[i + 1], args[i + 2], args[i + 3], tonumber(args[i + 6])
    local stored, stored_at
    if not all_new then stored, stored_at = fields_of(key, 'd', 'at') end
    if stored then  -- mutant: schedule_overwrites
      local other = redis.call('HGET', key, 'u') or ''
      answers[#answers + 1] = {stored == digest and 1 or 2, stored_at or '0', other}
    else
      local more = count == 2 and args[i + 7] == 'lim' and NOTHING or fields_given(args, i + 7, count)  -- limits alone concern nothing here
      local at = args[i + 4] ~= '' and tonumber(args[i + 4]) or now + tonumber(args[i + 5])  -- mutant: delay_ignored
      at = math.max(at, now)
      local unique, window, policy, joins, first
      if more.uk then
        unique, window, policy, joins = string.match(more.uk, '^(%S+) (%d+) (%d)(j?)$')
        first = of_window(P, unique, now)
        if policy ~= THROTTLE then at = math.max(at, now + tonumber(window)) end
      end
      if more.kc then keyed[queue] = true end
      if first and (policy == THROTTLE or first.waits) then
        if policy ~= THROTTLE then
          put_off(P, first, queue, at, spec, more)
          open_window(P, unique, first.id, at)
          pushing.due(P, queue, at, now)
        end
        local when = policy ~= THROTTLE and fmt(at) or first.at or '0'
        stands_for(P, id, digest, first.id, when, now)
        answers[#answers + 1] = {1, when, first.id}
      elseif joins == 'j' then
        answers[#answers + 1] = {3, '0', ''}
      else
        local score = at
        if more.k then
          if redis.call('RPUSH', order_key(P, more.k), id) > 1 then score = nil end  -- waits behind another  -- mutant: no_order
          if not score then due_index.wait(P, sets, queue) end
        end
        local at_text = at == now and now_text or fmt(at)
        spec = record.put(P, id, 'spec', spec, true)
        -- at once, where the next request of this call may put it off
        local written = unique and writes.AT_ONCE or sets
        local number = score == now and pushing.number(P, queue, now, more.kc)
        if number then
          redis.call('HSET', key, 's', 'ENQUEUED', 'q', queue, 'at', at_text, 't1', now_text, 't2', now_text, 'e', number, 'd', digest, 'spec', spec,
            unpack(args, i + 7, i + 6 + count))
          sets.PUSH(P, queue, id)
        else
          redis.call('HSET', key, 's', 'NEW', 'q', queue, 'at', at_text, 't1', now_text, 'd', digest, 'spec', spec, unpack(args, i + 7, i + 6 + count))
          written.ZADD(live_key(P, queue, 'NEW'), score and at_text or '+inf', id)
          if score then pushing.due(P, queue, score, now) end
        end
        if unique then redis.call('HSET', key, 'uk', unique) end
        lists.enter(P, written, id, lambda_of(queue), more.ix, now)
        if unique then open_window(P, unique, id, policy == THROTTLE and now + tonumber(window) or at) end
        answers[#answers + 1] = at == now and stored_now or {0, at_text, ''}
      end
    end
  end
end

register('schedule', {}, pushing.around(function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answers, keyed = {}, {}
  local starts, records, all_new = tasks_of(P, args)
  writes.gather(#records, store_each, P, now, args, starts, records, all_new, answers, keyed)
  for queue in pairs(keyed) do redis.call('HSET', queue_key(P, queue), 'keyed', '1') end
  return answers
end))
