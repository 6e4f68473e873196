-- enqueue: NEW, RETRIABLE_FAILURE (due) -> ENQUEUED; ENQUEUED (expired, gone from its queue) -> ENQUEUED;
--          CLAIMED, PROCESSING (lease expired) -> what `report_loss` makes of them, or ENQUEUED without a loss (`lapse` in common.lua);
--          ENQUEUED (expired, and fits nobody any more) -> NEW; NEW, RETRIABLE_FAILURE (due, and has fitted nobody for long) ->
--          RETRIABLE_FAILURE or, with no attempts left, FATAL_FAILURE (misfits.lua);
--          NEW, RETRIABLE_FAILURE (due, and kept by a gate) -> the same, parked, or CANCELLED; (parked, and let through) -> the same, due
-- KEYS[1]  the partition's record
-- ARGV     now, believed (no lease ends after this instant; 0 = no bound), items at most, jobs at most, the last step back of
--          TIME since which this store consumer has seen a heartbeat timeout go by ("" = it has just started), heartbeat timeout
-- RETURNS  now, µs until the next visit is due (-1 = none; of jobs only if some are wanted), enqueued, enqueued again, lost,
--          {queues that got entries}, {number, target, body, ... of the outbox records to deliver},
--          {name, generation, tick, ticks before it, tick that has not ended ("" = none), when the last one had, base, spec, ... of the jobs that are due},
--          tasks that gates have kept, dropped or let pass,
--          {lambdas of which so many runs failed for good that their automatic gate may have to close}, standing, the last step back of
--          TIME ("0" = there was none), 1 = this store consumer may end leases for all that
--
-- One pass visits the queues that the due index names, earliest first. Each visit scores its queue anew, so that the order
-- rotates: more to push = now; full = a long wait that `pop` cuts short; paused = the first of its leases; else its first instant.
--
-- An id whose record somebody has deleted is struck off when its turn comes: it must not hold up the others.

local BUDGET_BESIDE = 64  -- items at most, where more than one queue has tasks that run or are due before long
local BESIDE_WITHIN = 20000000  -- µs that this may be: longer than leases and enqueue timeouts by default
local VISIT_BESIDE = 8    -- items that one of them may have at least
-- Of what lies beside the partition's record.
local beside_key = remembered(function(P, name) return P .. ':' .. name end)
local LEASED = {'CLAIMED', 'PROCESSING'}
local PUSHED = {'RETRIABLE_FAILURE', 'NEW'}

-- How long it is until the first instant of a sorted set, or nil: it is empty.
local function first_in(set, now)
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return first[2] and math.max(tonumber(first[2]) - now, 0)
end

-- The shorter one of two waits: -1 and nil are none.
local function sooner(wait, other)
  if other and (wait < 0 or other < wait) then return other end
  return wait
end

local function first_score(P, queue, status)
  local first = redis.call('ZRANGE', live_key(P, queue, status), 0, 0, 'WITHSCORES')
  local score = first[2] and tonumber(first[2])
  if score and score < math.huge then return score end
end

local PLACE = {NEW = 1, RETRIABLE_FAILURE = 2, ENQUEUED = 3, CLAIMED = 4, PROCESSING = 5}
local function none_read() return {true, true, true, true, true} end  -- true: not read; in an array, which is less to make

-- The first instant of those with a status, or false. `firsts` holds what was read so, since each call of Redis counts: of a task that
-- comes and goes alone, a visit is a third of all that the store does.
local function first_of(P, queue, status, firsts)
  local place = PLACE[status]
  if firsts[place] == true then firsts[place] = first_score(P, queue, status) or false end
  return firsts[place]
end

local function due_ids(P, queue, status, now, limit, firsts)
  local first = limit > 0 and first_of(P, queue, status, firsts)
  if not first or first > now then return NOTHING end
  firsts[PLACE[status]] = true
  return redis.call('ZRANGE', live_key(P, queue, status), '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(limit))
end

-- The same, of those that leave the set in this visit. One that is due alone, as of tasks that come one by one, is told by the call that
-- also says what is first then.
local function due_to_leave(P, queue, status, now, limit, firsts)
  local place = PLACE[status]
  if limit <= 0 or firsts[place] == false then return NOTHING end
  local two = redis.call('ZRANGE', live_key(P, queue, status), 0, 1, 'WITHSCORES')
  local first, second = tonumber(two[2]) or math.huge, tonumber(two[4]) or math.huge
  if second <= now then
    firsts[place] = first
    return due_ids(P, queue, status, now, limit, firsts)
  end
  local left = first > now and first or second
  firsts[place] = left < math.huge and left
  return first <= now and {two[1]} or NOTHING
end

-- One visit of a queue. Returns how many tasks it looked at, and of these how many it pushed, pushed again, found lost, had kept by gates,
-- and found standing in their queue; and the lambda's door, or nil: nothing is to be checked there.
-- `pushed` and `length` follow the queue as it changes. Of `budget` items and the lambda's permits so many are `kept` from being pushed for
-- the lambda's other queues; `budget_again` bounds what is not pushed for the first time.
local function visit(P, queue, config, now, lease_now, budget_again, budget, kept, expired)
  local limit, unfit = tonumber(config[1] or DEFAULT_QUEUE_LIMIT), misfits.lately(config[6], now)
  local expires = now + tonumber(config[2] or DEFAULT_ENQUEUE_TIMEOUT)
  local unknown = not config[1]  -- or not yet: then its limits and gates are, too
  local paused = config[3] == '1' or unknown
  local list = list_key(P, queue)
  local state = redis.call('HMGET', queue_key(P, queue), 'pushed', 'keyed')
  local pushed = tonumber(state[1] or 0)
  local door = (config[4] or state[2] or config[5]) and settings_of(config[4]) or nil
  if door then door.gates = config[5] or nil end
  local looked, enqueued, again, lost, gated, standing = 0, 0, 0, 0, 0, 0
  local firsts, length = none_read(), 0
  local seldom = {live_key(P, queue, 'PROCESSING'), live_key(P, queue, 'RETRIABLE_FAILURE')}
  if redis.call('EXISTS', list, seldom[1], seldom[2], live_key(P, queue, 'ENQUEUED'), live_key(P, queue, 'CLAIMED')) == 0 then
    firsts = {true, false, false, false, false}  -- all of it is NEW, as where many lambdas have a task each: one call instead of five
  else
    length = redis.call('LLEN', list)
    if redis.call('EXISTS', seldom[1], seldom[2]) == 0 then firsts[PLACE.PROCESSING], firsts[PLACE.RETRIABLE_FAILURE] = false, false end
  end

  for _, status in ipairs(LEASED) do
    for _, id in ipairs(due_ids(P, queue, status, lease_now, budget_again - looked, firsts)) do
      looked = looked + 1
      if redis.call('EXISTS', task_key(P, id)) == 1 then
        lose_task(P, id, now)
        lost, expired[#expired + 1] = lost + 1, id
      else
        redis.call('ZREM', live_key(P, queue, status), id)
      end
    end
  end
  if lost > 0 then firsts = none_read() end  -- one that ends may make others due

  -- ENQUEUED and expired: what still stands in the queue only gets a new instant, so that a backlog grows no duplicates.
  -- The rest was popped and never claimed, handed back, or lost; it waited before, so it goes to the front.
  -- While the lambda is paused they all wait as they are, to be looked at as soon as it goes on. What the rate holds back does, too.
  local room = door and not paused and permits_for(P, queue, door, now) or nil
  local most_again = room and room.bucket and room.bucket.left - kept or math.huge
  local front, stuck, held, aside = NOTHING, false, false, false
  for _, id in ipairs(due_ids(P, queue, 'ENQUEUED', now, paused and 0 or budget_again - looked, firsts)) do
    local task = redis.call('HMGET', task_key(P, id), 's', 'e', 'mf')
    local entry = tonumber(task[2] or nil)
    looked = looked + 1
    if not task[1] then
      redis.call('ZREM', live_key(P, queue, 'ENQUEUED'), id)
    elseif entry and entry > pushed - length then  -- mutant: backlog_pushed_again
      redis.call('ZADD', live_key(P, queue, 'ENQUEUED'), fmt(expires), id)
      standing = standing + 1
    elseif length + #front >= limit then
      stuck = true
    elseif #front + again >= most_again then
      held = true
      break
    elseif task[3] then
      local what = misfits.look(P, id, queue, task[3], expires, now)
      standing, again = standing + (what == 'standing' and 1 or 0), again + (what == 'again' and 1 or 0)
      aside = aside or what == 'aside'
    else
      if #front == 0 then front = {} end
      front[#front + 1] = id  -- mutant: lost_pop_not_redriven
    end
  end
  for i = #front, 1, -1 do
    move(P, AT_ONCE, front[i], queue, 'ENQUEUED', 'ENQUEUED', expires, now, 'e', fmt(pushed - length))
    length = redis.call('LPUSH', list, front[i])
    again = again + 1
  end

  if aside then firsts = none_read() end  -- it is NEW now, and holds nothing

  if room then
    if room.bucket then bound_by_rate(room, again, held, now) end
    room.left = math.max(room.left - kept, 0)
  end
  if not paused then
    for _, status in ipairs(PUSHED) do
      local most = math.min(budget - kept - looked, limit - length)
      if room then most = math.min(most, room.left) end
      local ids = due_to_leave(P, queue, status, now, most, firsts)  -- mutant: pushed_early
      looked = looked + #ids
      local slotted
      local apart = NOTHING
      if unfit and #ids > 0 then ids, apart = misfits.sift(P, queue, status, ids, now) end
      if door and #ids > 0 then
        local more
        ids, more, slotted = through_door(P, queue, status, ids, now, door, state[2])
        gated = gated + more
      end
      if #ids > 0 then
        local found, scores, beside = {}, {}, 0
        for _, id in ipairs(ids) do
          local number = not apart[id] and fmt(pushed + #found + 1) or ''
          if redis.call('HSET', task_key(P, id), 's', 'ENQUEUED', 't2', fmt(now), 'e', number) == 3 then
            redis.call('DEL', task_key(P, id))  -- not even the status was there before: no record
          else
            if status == 'RETRIABLE_FAILURE' then recount(P, AT_ONCE, id, status, 'ENQUEUED', now) end
            if room and room.running then redis.call('HSET', task_key(P, id), 'h', slotted and slotted[id] and 'kp' or 'p') end
            if apart[id] then
              misfits.join(P, id, queue, apart[id], now)
              beside = beside + 1
            else
              found[#found + 1] = id
            end
            scores[#scores + 1], scores[#scores + 2] = fmt(apart[id] and misfits.stands(expires, now) or expires), id
          end
        end
        redis.call('ZREM', live_key(P, queue, status), unpack(ids))
        if #scores > 0 then
          redis.call('ZADD', live_key(P, queue, 'ENQUEUED'), unpack(scores))
          local first = firsts[PLACE.ENQUEUED]
          if first ~= true then firsts[PLACE.ENQUEUED] = math.min(first or expires, expires) end
          if #found > 0 then length = redis.call('RPUSH', list, unpack(found)) end
          pushed = pushed + #found
          enqueued = enqueued + #found + beside
          if room then room.left = room.left - #found - beside end
        end
      end
    end
    if enqueued > 0 then redis.call('HSET', queue_key(P, queue), 'pushed', fmt(pushed)) end
  end
  if door or unfit then firsts = none_read() end  -- gates, slots and permits move tasks of each status

  local next_at, short = nil, false
  for _, status in ipairs(paused and not unknown and LEASED or LIVE) do
    local score = first_of(P, queue, status, firsts)
    if unknown and score then
      score = math.max(score, now + UNKNOWN_REVISIT)  -- what home answers may be forgotten by its server: then it is asked anew
    elseif score and (status == 'CLAIMED' or status == 'PROCESSING') and score <= now then
      -- Overdue by a clock that is not believed yet. It may be believed any moment, by a consumer that has just started: soon again.
      score = now + math.min(score - lease_now, CLOCK.REVISIT)
    end
    if room and score and score <= now then
      local waits = status == 'ENQUEUED' and held or room.left <= 0 and (status == 'NEW' or status == 'RETRIABLE_FAILURE')
      if waits then score, short = room.again, true end
    end
    if score and (not next_at or score < next_at) then next_at = score end
  end
  if room and permits_taken(P, queue, room, enqueued, again, short, now) then next_at = now end
  -- Full, and nothing else is left to do (leases come before what is stuck): looking again would not help before a pop.
  if next_at and next_at <= now and length >= limit and (stuck or looked < budget - kept) then
    redis.call('HSET', queue_key(P, queue), 'full', '1')
    next_at = now + FULL_REVISIT
  end
  if next_at then
    redis.call('ZADD', beside_key(P, 'due'), fmt(math.max(next_at, now)), queue)
  else
    redis.call('ZREM', beside_key(P, 'due'), queue)
  end
  return looked, enqueued, again, lost, gated, standing, door
end

-- The queues of a pass, those of a lambda together.
local function by_lambda(queues)
  if #queues < 2 then return #queues == 1 and {queues} or NOTHING end
  local groups, known = {}, {}
  for _, queue in ipairs(queues) do
    local name = lambda_of(queue)
    if not known[name] then
      known[name] = {}
      groups[#groups + 1] = known[name]
    end
    table.insert(known[name], queue)
  end
  return groups
end

-- Where several queues of a lambda are due, deals the pushes of a pass among them (shares.lua). One that waits for the lambda's limits
-- takes part as soon as there is a permit, lest it always come too late. The least urgent is visited first, and leaves the others
-- what they were dealt: so the more urgent ones get what it does not use.
local function by_shares(P, queues, config, now, places)
  if not config[1] then places = 0 end  -- nothing of it is pushed
  local name, door = lambda_of(queues[1]), config[3] ~= '1' and config[4]
  local waits = door and waiting_priorities(P, name) or ''
  if #queues == 1 and (waits == '' or waits == string.sub(queues[1], -1)) then return queues, NOTHING end
  local claims, known = {}, {}
  for _, queue in ipairs(queues) do known[queue] = true end
  local room = door and permits_for(P, queues[1], settings_of(door), now)
  if room and room.left > 0 then
    for digit in string.gmatch(waits, '%d') do
      local queue = name .. ':' .. digit
      if not known[queue] then queues[#queues + 1], known[queue] = queue, true end
    end
  end
  local statuses = {'RETRIABLE_FAILURE', 'NEW'}
  if room and room.bucket then statuses[3] = 'ENQUEUED' end  -- what is pushed again takes of the rate, too
  for i, queue in ipairs(queues) do
    claims[i] = {queue = queue, wants = waiting(P, name, string.sub(queue, -1), statuses, now), gets = 0}
  end
  places = room and math.min(places, room.left) or places
  if places > 0 then deal(P, name, claims, places, 'pushes') end
  table.sort(claims, function(a, b) return a.queue > b.queue end)
  local order, shares = {}, {}
  for i, claim in ipairs(claims) do order[i], shares[claim.queue] = claim.queue, claim.gets end
  return order, shares
end

-- A tick of a job that has not ended, or "": there is none. One whose record somebody has deleted holds up no others.
local function live_tick(P, name, now)
  for _, id in ipairs(redis.call('ZRANGE', ticks.key(P, name), ticks.ORPHAN, ticks.HELD, 'BYSCORE', 'LIMIT', 0, 16)) do
    local status = redis.call('HGET', task_key(P, id), 's')
    if status and status ~= 'TOMBSTONE' and not FINISHED[status] then return id end
    ticks.ended(P, name, id, '', now)
  end
  return ''
end

-- Jobs whose tick is due, for a consumer to say what comes of it; until it has, its peers leave them alone for a while. A job
-- whose tick before this one has not ended yet is passed on where its policy is to `skip` or to `cancel_tasks`, and otherwise looked at
-- again when that tick ends, or after a while, should its record have been deleted.
local function due_jobs(P, now, most, answer)
  local bytes = 0
  for _, name in ipairs(redis.call('ZRANGE', beside_key(P, 'jobs'), '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(most))) do
    local job = redis.call('HMGET', job_key(P, name), 'g', 'n', 'k', 'o', 'p', 'ended', 'b')
    if not job[1] or job[2] == '' or job[5] then
      redis.call('ZREM', beside_key(P, 'jobs'), name)
    else
      local running = live_tick(P, name, now)
      local waits = running ~= '' and (job[4] == 'queue' or job[4] == 'cancel_running')  -- mutant: tick_at_once
      redis.call('ZADD', beside_key(P, 'jobs'), fmt(now + (waits and JOB_WAIT or JOB_RETRY)), name)  -- mutant: tick_forgotten
      if not waits or job[4] == 'cancel_running' then
        local count = #answer
        answer[count + 1], answer[count + 2], answer[count + 3], answer[count + 4] = name, job[1], job[2], job[3]
        local spec = redis.call('HGET', job_key(P, name), 'spec')
        answer[count + 5], answer[count + 6], answer[count + 7], answer[count + 8] = running, job[6] or '', job[7], spec
        bytes = bytes + #spec
        if bytes > JOBS_BYTES then break end
      end
    end
  end
end

-- Lambdas whose gates have ended or were lifted, or that are to let something pass. Half of a pass at most: the other is for what is due.
local function due_gates(P, now, most, ask)
  local wait, dealt = first_in(beside_key(P, 'gates'), now), 0
  if wait == 0 then
    for _, name in ipairs(redis.call('ZRANGE', beside_key(P, 'gates'), '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, VISITS_PER_PASS)) do
      local count, failing_here = look_at_gates(P, name, now, most - dealt)
      dealt = dealt + count
      if failing_here then ask[#ask + 1] = name end
      if dealt >= most then break end
    end
    wait = first_in(beside_key(P, 'gates'), now)
  end
  return dealt, wait
end

-- Asks home of a lambda that this partition does not know, since home may know it where this server was emptied: of all of them, where
-- it knows none. There is one such question at a time; the queue is visited again, and asks anew.
local function ask_of(P, name, now)
  local record = redis.call('HMGET', P, 'partitions', 'asked')
  if record[1] == '1' or string.sub(P, 6, -2) == '0' then return end
  if record[2] and redis.call('HEXISTS', P .. ':outbox', record[2]) == 1 then return end
  local only = redis.call('EXISTS', P .. ':lambdas') == 1 and name or ''
  redis.call('HSET', P, 'asked', owe(P, 0, '0\n["retell","","' .. only .. '"]', now))
end

-- Notes whether a pause of claims has gone by on the clock that this pass believes (see pause_left). Returns how long that is to come yet,
-- or nil.
--
-- What this partition was told of lambdas may be forgotten where claims may be; or it has heard what their home has forgotten since. So
-- home says it all again (resync_lambdas.lua).
local function note_pass(P, now, lease_now, record)
  if now - tonumber(record[2] or 0) > CLOCK.IDLE then redis.call('HSET', P, 'clock', fmt(now)) end
  local settled = tonumber(record[1] or 0)
  if record[5] then
    redis.call('HDEL', P, 'forgot')
    if redis.call('HGET', P, 'partitions') ~= '1' then owe(P, 0, '0\n["retell",""]', now) end
  end
  if tonumber(record[4] or 0) == settled then return nil end
  if lease_now < settled then return math.min(settled - lease_now, CLOCK.REVISIT) end
  redis.call('HSET', P, 'calm', fmt(settled))
  redis.call('DEL', roster.key(P, 'asked'))  -- whoever has not answered holds nothing any more that was forgotten
end

-- The last step back of TIME (see note_clock), and whether this store consumer may end leases: it has seen a heartbeat timeout go by
-- since the one that is `seen`. One that has just started may where another one has, or one that had just started long enough ago: both
-- believe TIME by the clocks of their hosts, and some live too shortly to see that.
local function step_back(P, now, believed, seen, timeout, record)
  local stepped, over, started = record[3] or '0', '0', ''
  if record[3] then
    local known = redis.call('HMGET', P, 'stepped_over', 'stepped_start')
    over, started = known[1] or '0', known[2] or ''
  end
  local starts = seen == ''
  local may = stepped == seen or starts and stepped == over
  -- where it may not, it has been told, or will be, of the step for which TIME is behind what it believes
  local further = may and believed > now + CLOCK.APART and fmt(believed)
  local step = note_clock(P, now, further or record[2], math.huge)
  if step then return step, false end
  if starts and not may and believed > 1 then  -- 1: it does not believe any TIME yet
    local name, since = string.match(started, '^(%d+) (%d+)$')
    if name ~= stepped then
      redis.call('HSET', P, 'stepped_start', stepped .. ' ' .. fmt(math.min(now, believed)))
    else
      may = math.min(now, believed) >= tonumber(since) + timeout
    end
  end
  if may and stepped ~= over then redis.call('HSET', P, 'stepped_over', stepped) end
  return stepped, may
end

-- The queues that are due, and whether there are several that hold tasks which run or are due before long. Mostly there is one at most,
-- which the first call tells.
local function queues_due(index, now)
  local two = redis.call('ZRANGE', index, 0, 1, 'WITHSCORES')
  local first, second = tonumber(two[2]) or math.huge, tonumber(two[4]) or math.huge
  if second <= now then return redis.call('ZRANGE', index, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, VISITS_PER_PASS), true end
  return first <= now and {two[1]} or NOTHING, second <= now + BESIDE_WITHIN
end

register('enqueue', {'allow-oom'}, function(keys, args)
  local P, now, believed, budget = keys[1], instant(args[1]), tonumber(args[2]), tonumber(args[3])
  local record = redis.call('HMGET', P, 'settled', 'clock', 'stepped', 'calm', 'forgot')
  local stepped, over = step_back(P, now, believed, args[5], tonumber(args[6]), record)  -- mutant: early_by_an_instant_of_before
  local lease_now = not over and 0 or believed > 0 and math.min(now, believed) or now
  local enqueued, again, lost, standing, pushed, owed, jobs, expired = 0, 0, 0, 0, {}, NOTHING, NOTHING, {}
  misfits.failed = {}
  -- Nothing that a pass pushes is seen before the pass is over: where there are others, no queue makes them wait for long.
  -- And each that is due has its turn in the pass: the noisy one was looked at last, and so it would always be the first.
  local index, each = beside_key(P, 'due'), budget
  local due, beside = queues_due(index, now)
  if beside then
    budget = math.min(budget, BUDGET_BESIDE)
    each = math.max(math.floor(budget / math.max(#due, 1)), VISIT_BESIDE)
  end
  local ask, gated, gates_in = NOTHING, 0, nil
  local rare = redis.call('EXISTS', beside_key(P, 'gates'), beside_key(P, 'lines'), beside_key(P, 'jobs')) > 0  -- mostly there is none of these
  if rare then
    ask = {}
    gated, gates_in = due_gates(P, now, math.floor(budget / 2), ask)
  end
  budget = budget - gated
  for _, queues in ipairs(by_lambda(due)) do
    if queues[1] == OUTBOX then
      local due = beside_key(P, 'outbox:due')
      for _, number in ipairs(redis.call('ZRANGE', due, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, 32)) do
        local record = redis.call('HGET', P .. ':outbox', number)
        redis.call('ZADD', due, fmt(now + OUTBOX_RETRY), number)
        if #owed == 0 then owed = {} end
        owed[#owed + 1] = number
        owed[#owed + 1], owed[#owed + 2] = string.match(record, '^(%d+)\n(.*)$')
      end
      local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
      if first[2] then redis.call('ZADD', index, first[2], OUTBOX) else redis.call('ZREM', index, OUTBOX) end
    else
      local places, kept = math.min(budget, each * #queues), 0
      local config = redis.call('HMGET', lambda_key(P, lambda_of(queues[1])), 'limit', 'timeout', 'paused', 'door', 'gates', 'mis')
      if not config[1] then ask_of(P, lambda_of(queues[1]), now) end
      local order, shares = by_shares(P, queues, config, now, places)
      for _, gets in pairs(shares) do kept = kept + gets end
      for _, queue in ipairs(order) do
        kept = kept - (shares[queue] or 0)
        local looked, new, old, gone, held, stood, door = visit(P, queue, config, now, lease_now, math.min(places, each), places, kept, expired)
        places, budget = places - looked, budget - looked
        enqueued, again, lost, gated, standing = enqueued + new, again + old, lost + gone, gated + held, standing + stood
        rare = rare or door or gone > 0  -- there may be some now
        if new + old > 0 then pushed[#pushed + 1] = queue end
      end
    end
    if budget <= 0 then break end
  end
  if #pushed > 0 then redis.call('SPUBLISH', beside_key(P, 'bell:ready'), table.concat(pushed, '\n')) end
  local wait = sooner(gates_in or -1, note_pass(P, now, lease_now, record))
  if rare and redis.call('EXISTS', beside_key(P, 'lines'), beside_key(P, 'jobs')) > 0 then
    check_lines(P, now)
    local most = tonumber(args[4])
    if most > 0 then
      jobs = {}
      due_jobs(P, now, most, jobs)
      wait = sooner(wait, first_in(beside_key(P, 'jobs'), now))
    end
  end
  wait = sooner(wait, first_in(index, now))
  return {fmt(now), fmt(wait), enqueued, again, lost, pushed, owed, jobs, gated, ask, standing, stepped, over and 1 or 0, expired, misfits.failed}
end)
