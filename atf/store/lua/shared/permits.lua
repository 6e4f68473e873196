-- Permits: how many tasks of a lambda may stand in queues or run (`running`), and how many may be pushed in a second (`rate`, `burst`).
--
-- What stands in queues and runs is counted where it stands, in the sets of the due index: so nothing has to be given back. That a task
-- has a permit (p in its field `h`) says that others may wait for its end.

local IN_HAND = {'ENQUEUED', 'CLAIMED', 'PROCESSING'}

local function in_hand(P, name)
  local count = 0
  for priority = 0, MAX_PRIORITY do
    local queue = name .. ':' .. priority
    for _, status in ipairs(IN_HAND) do count = count + redis.call('ZCARD', live_key(P, queue, status)) end
  end
  return count
end

-- The lambda's own limits: permits of each kind, n of `running` and b of `rate`.
function permits.limits_of(settings)
  local running, rate = tonumber(settings.running), tonumber(settings.rate)
  if not running and not rate then return nil end
  local burst = rate and (tonumber(settings.burst) or math.max(math.ceil(rate * 1.25), 1))
  return {n = running, b = burst, rate = rate, most = rate and math.max(burst - rate, rate / 4, 1)}
end

-- What the rate leaves, once `again` tasks have been pushed again; `held`: others of those wait for it.
function permits.bound_by_rate(room, again, held, now)
  local left = math.max(room.bucket.left - again, 0)
  if held or not room.left or left < room.left then
    room.left, room.why = math.min(left, room.left or left), 'rate'
    room.again = math.max(room.bucket.again, now + RATE_STEP)
  end
end

-- What a lambda's limits leave of a queue's tasks: `left` may be pushed; those behind them need not be looked at before `again`, since
-- they wait for `why`. nil: it has no limits of this kind.
function permits.room(P, queue, settings, now)
  local limits = permits.limits_of(settings)
  if not limits then return nil end
  local name = lambda_of(queue)
  local room = {name = name, limits = limits, part = permit_part.read(P, name), running = limits.n, used = {}, have = {}, need = {}}
  local partitions, pause_until = fields_of(P, 'partitions', 'pause_until')
  room.partitions, room.pause_until = tonumber(partitions or 1), tonumber(pause_until or 0)
  room.epoch = permit_part.epoch_of(room.part.me, room.part.ms, room.pause_until)
  local alone, knows = room.partitions == 1, room.part.ae == room.epoch
  if limits.n then
    room.used.n, room.have.n = in_hand(P, name), alone and limits.n or knows and permit_part.may_use(room.part, 'n', limits.n) or 0
    room.left = math.max(room.have.n - room.used.n, 0)  -- mutant: permits_not_counted
    room.again, room.why = now + PERMIT_REVISIT, 'running'
  end
  if limits.b then
    room.have.b = alone and limits.b or knows and permit_part.may_use(room.part, 'b', limits.b) or 0  -- mutant: burst_for_each_partition
    room.bucket = buckets.read(limits, room.have.b, room.part.z, room.part.log, now)
    room.used.b = room.bucket.sum
    permits.bound_by_rate(room, 0, false, now)
  end
  return room
end

local function noted(digits, digit, waits)
  local others = string.gsub(digits, digit, '')
  return waits and others .. digit or others
end

-- Due tasks that wait in queues of a lambda for a place or for a permit. ENQUEUED ones wait to be pushed again: of these no more than
-- have left the queue, for what still stands in it only gets a new instant. (What was cancelled there hides as many, until it is taken.)
function permits.waiting(P, name, digits, statuses, now)
  local count = 0
  for digit in string.gmatch(digits, '%d') do
    local queue = name .. ':' .. digit
    for _, status in ipairs(statuses) do
      local due = redis.call('ZCOUNT', live_key(P, queue, status), '-inf', fmt(now))
      if status == 'ENQUEUED' and due > 0 then
        local left = redis.call('ZCARD', live_key(P, queue, status)) - redis.call('LLEN', list_key(P, queue))
        due = math.max(math.min(due, left), 0)
      end
      count = count + due
    end
  end
  return count
end

-- `pushed` tasks have taken permits, `again` others only of the rate. `short`: there are due tasks left that had to wait. Returns whether
-- more may be pushed at once.
function permits.take(P, queue, room, pushed, again, short, now)
  local part, digit, key = room.part, string.sub(queue, -1), permit_part.key(P, room.name)
  local entries = pushed + again  -- mutant: pushed_again_for_nothing
  if room.bucket and (entries > 0 or room.bucket.stepped_back) then
    part.z = room.bucket.z + math.ceil(entries * (room.bucket.each or 0))  -- mutant: rate_not_taken
    redis.call('HSET', key, 'z', fmt(part.z), 'log', buckets.write_log(room.bucket.log, entries, now))
  end
  local for_running, for_rate = noted(part.for_running, digit, short and room.why == 'running'), noted(part.for_rate, digit, short and room.why == 'rate')
  if for_running ~= part.for_running or for_rate ~= part.for_rate then
    redis.call('HSET', key, 'w', for_running, 'y', for_rate)
    part.for_running, part.for_rate = for_running, for_rate
  end
  if room.partitions == 1 then return false end
  if room.used.n then room.used.n = room.used.n + pushed end
  if room.used.b then room.used.b = room.used.b + entries end
  return permit_part.report(P, room, now)
end

-- Digits of the priorities of a lambda whose queues are known to wait for its limits.
function permits.waiting_priorities(P, name)
  local for_running, for_rate = fields_of(permit_part.key(P, name), 'w', 'y')
  return (for_running or '') .. (for_rate or '')
end

-- Which of its lambda's limits a queue waits for: '', 'running=<number>' or 'rate=<number>'.
function permits.why_waits(P, queue, settings_text)
  if not settings_text then return '' end
  local settings, digit, why = registry.settings_of(settings_text), string.sub(queue, -1), nil
  local for_running, for_rate = fields_of(permit_part.key(P, lambda_of(queue)), 'w', 'y')
  if for_running and string.find(for_running, digit, 1, true) then why = 'running' end
  if for_rate and string.find(for_rate, digit, 1, true) then why = 'rate' end
  return why and settings[why] and why .. '=' .. settings[why] or ''
end

-- A task that was pushed with a permit has left its queue or its executor for good: what waits for that is looked at, and a permit that
-- others wait for is given back by a visit.
function permits.freed(P, queue, now)
  local name = lambda_of(queue)
  local for_running, most_to_keep = fields_of(permit_part.key(P, name), 'w', 'nC')
  if for_running and for_running ~= '' then
    redis.call('HSET', permit_part.key(P, name), 'w', '')
    for digit in string.gmatch(for_running, '%d') do due_index.visit_by(P, name .. ':' .. digit, now) end
  elseif most_to_keep and most_to_keep ~= '' then
    due_index.visit_by(P, queue, now)
  end
end
