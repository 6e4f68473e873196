-- enqueue: pushes what is due, and pushes again what expired and is gone from its queue; ends leases that have expired, as `report_loss`
--          does, or without a loss (loss.lua); deals with misfits that fit nobody any more (misfits.lua), and with what gates keep.
-- MOVES    enqueue: NEW, RETRIABLE_FAILURE -> ENQUEUED; enqueue again: ENQUEUED -> ENQUEUED;
--          lapse, lose: CLAIMED, PROCESSING -> ENQUEUED; lose for good: CLAIMED, PROCESSING -> FATAL_FAILURE;
--          stop: CLAIMED, PROCESSING -> CANCELLED; hold back: CLAIMED, PROCESSING -> NEW;
--          cancel a running task: CLAIMED, PROCESSING; gate, let through: NEW, RETRIABLE_FAILURE;
--          drop: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; leave to others: ENQUEUED -> NEW;
--          misfit fails: NEW, RETRIABLE_FAILURE -> RETRIABLE_FAILURE;
--          misfit fails for good: NEW, RETRIABLE_FAILURE -> FATAL_FAILURE
-- KEYS[1]  the partition's record
-- ARGV     now, believed (no lease ends after this instant; 0 = no bound), items at most, jobs at most, the last step back of
--          TIME since which this store consumer has seen a heartbeat timeout go by ("" = it has just started), heartbeat timeout
-- RETURNS  now, µs until the next visit is due (-1 = none; of jobs only if some are wanted), enqueued, enqueued again, lost,
--          {queues that it visited}, {number, target, body, ... of the outbox records to apply},
--          {name, generation, tick, ticks before it, tick that has not ended ("" = none), when the last one had, base, spec, ... of the jobs that are due},
--          tasks that gates have kept, dropped or let pass,
--          {lambdas of which so many runs failed for good that their automatic gate may have to close}, standing, the last step back of
--          TIME ("0" = there was none), 1 = this store consumer may end leases for all that,
--          {tasks whose lease has expired}, {misfits that failed}, for how long the next visit has been due already, µs
--
-- One pass visits the queues that the due index names, earliest first. Each visit scores its queue anew, so that the order
-- rotates: more to push = now; full = a long wait that `next_claims` cuts short; paused = the first of its leases; else its first instant.
--
-- An id whose record somebody has deleted is struck off when its turn comes: it must not hold up the others.

local BUDGET_BESIDE = 64  -- items at most, where more than one queue has tasks that run or are due before long
local BESIDE_WITHIN = 20000000  -- µs that this may be: longer than leases and enqueue timeouts by default
local VISIT_BESIDE = 8    -- items that one of them may have at least

-- The shorter one of two waits: -1 and nil are none.
local function sooner(wait, other)
  if other and (wait < 0 or other < wait) then return other end
  return wait
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

-- Where several queues of a lambda are due, deals the pushes of a pass among them (fair_shares.lua). One that waits for the lambda's limits
-- takes part as soon as there is a permit, lest it always come too late. The least urgent is visited first, and leaves the others
-- what they were dealt: so the more urgent ones get what it does not use.
local function by_shares(P, queues, lambda, now, places)
  if not lambda.limit then places = 0 end  -- nothing of it is pushed
  local name, settings = lambda_of(queues[1]), lambda.paused ~= '1' and lambda.settings
  local waits = settings and permits.waiting_priorities(P, name) or ''
  if #queues == 1 and (waits == '' or waits == string.sub(queues[1], -1)) then return queues, NOTHING end
  local claims, known = {}, {}
  for _, queue in ipairs(queues) do known[queue] = true end
  local room = settings and permits.room(P, queues[1], registry.settings_of(settings), now)
  if room and room.left > 0 then
    for digit in string.gmatch(waits, '%d') do
      local queue = name .. ':' .. digit
      if not known[queue] then queues[#queues + 1], known[queue] = queue, true end
    end
  end
  local statuses = {'RETRIABLE_FAILURE', 'NEW'}
  if room and room.bucket then statuses[3] = 'ENQUEUED' end  -- what is pushed again takes of the rate, too
  for i, queue in ipairs(queues) do
    claims[i] = {queue = queue, wants = permits.waiting(P, name, string.sub(queue, -1), statuses, now), gets = 0}
  end
  places = room and math.min(places, room.left) or places
  if places > 0 then fair_shares.deal(P, name, claims, places, 'pushes') end
  table.sort(claims, function(a, b) return a.queue > b.queue end)
  local order, shares = {}, {}
  for i, claim in ipairs(claims) do order[i], shares[claim.queue] = claim.queue, claim.gets end
  return order, shares
end

-- The queues that are due, and whether there are several that hold tasks which run or are due before long. Mostly there is one at most,
-- which the first call tells.
local function queues_due(index, now)
  local two = redis.call('ZRANGE', index, 0, 1, 'WITHSCORES')
  local first, second = tonumber(two[2]) or math.huge, tonumber(two[4]) or math.huge
  if second <= now then return redis.call('ZRANGE', index, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, VISITS_PER_PASS), true end
  return first <= now and {two[1]} or NOTHING, second <= now + BESIDE_WITHIN
end

local pass = {}  -- one for all calls: to make it costs as much as a command

-- What a pass counts and finds. `each`: items of one visit at most. `rare`: whether there may be gates, jobs, or keys for which tasks wait.
-- Nothing that a pass pushes is seen before the pass is over: where there are others, no queue makes them wait for long.
-- And each that is due has its turn in the pass: the noisy one was looked at last, and so it would always be the first.
local function begin_pass(P, now, lease_now, budget, due, beside)
  local each = budget
  if beside then
    budget = math.min(budget, BUDGET_BESIDE)
    each = math.max(math.floor(budget / math.max(#due, 1)), VISIT_BESIDE)
  end
  local rare = redis.call('EXISTS', beside_key(P, 'gates'), beside_key(P, 'lines'), beside_key(P, 'jobs')) > 0  -- mostly there is none of these
  pass.now, pass.lease_now, pass.budget, pass.each, pass.rare, pass.next_in = now, lease_now, budget, each, rare, -1
  pass.enqueued, pass.again, pass.lost, pass.gated, pass.standing = 0, 0, 0, 0, 0
  pass.visited, pass.pushed, pass.expired, pass.failing, pass.outbox, pass.jobs = {}, {}, {}, NOTHING, NOTHING, NOTHING
end

-- Visits the due queues of one lambda. What is dealt to a queue is kept from those that are visited before it.
local function visit_lambda(P, queues)
  local name = lambda_of(queues[1])
  local lambda = queue_visit.lambda(P, name)
  local places, kept = math.min(pass.budget, pass.each * #queues), 0
  if not lambda.limit then registry.ask_of(P, name, pass.now) end
  local order, shares = by_shares(P, queues, lambda, pass.now, places)
  for _, gets in pairs(shares) do kept = kept + gets end
  for _, queue in ipairs(order) do
    kept = kept - (shares[queue] or 0)
    local looked = queue_visit.visit(P, queue, lambda, pass, math.min(places, pass.each), places, kept)
    places, pass.budget = places - looked, pass.budget - looked
  end
end

-- What is rare: concurrency keys for which tasks wait, and jobs whose tick is due, `most` of them.
local function look_at_rare(P, most)
  if not pass.rare or redis.call('EXISTS', beside_key(P, 'lines'), beside_key(P, 'jobs')) == 0 then return end
  concurrency_keys.check(P, pass.now)
  if most == 0 then return end
  pass.jobs = {}
  ticks.due_jobs(P, pass.now, most, pass.jobs)
  pass.next_in = sooner(pass.next_in, due_index.first_in(beside_key(P, 'jobs'), pass.now))
end

register('enqueue', {'allow-oom'}, function(keys, args)
  local P, now, believed = keys[1], instant(args[1]), tonumber(args[2])
  local known = store_clock.read(P)
  local stepped, over = store_clock.step_back(P, now, believed, args[5], tonumber(args[6]), known)  -- mutant: early_by_an_instant_of_before
  local lease_now = not over and 0 or believed > 0 and math.min(now, believed) or now
  misfits.failed = {}
  local due, beside = queues_due(beside_key(P, 'due'), now)
  begin_pass(P, now, lease_now, tonumber(args[3]), due, beside)
  if pass.rare then parking.due(P, pass, math.floor(pass.budget / 2)) end
  for _, queues in ipairs(by_lambda(due)) do
    if queues[1] == outbox.MEMBER then pass.outbox = outbox.due(P, now) else visit_lambda(P, queues) end
    if pass.budget <= 0 then break end
  end
  if #pass.pushed > 0 then redis.call('SPUBLISH', beside_key(P, 'notify:ready'), table.concat(pass.pushed, '\n')) end
  pass.next_in = sooner(pass.next_in, store_clock.note_pass(P, now, lease_now, known))
  look_at_rare(P, tonumber(args[4]))
  local first_in, late = due_index.first_in(beside_key(P, 'due'), now)
  local wait = sooner(pass.next_in, first_in)
  return {
    fmt(now), fmt(wait), pass.enqueued, pass.again, pass.lost, pass.visited, pass.outbox, pass.jobs, pass.gated, pass.failing, pass.standing,
    stepped, over and 1 or 0, pass.expired, misfits.failed, late > 0 and fmt(late) or 0,
  }
end)
