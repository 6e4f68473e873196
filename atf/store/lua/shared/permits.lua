-- Permits: how many tasks of a lambda may stand in queues or run (`running`), and how many may be pushed in a second (`rate`, `burst`).
--
-- What stands in queues and runs is counted where it stands, in the sets of the due index: so nothing has to be given back. That a task
-- has a permit (p in its field `h`) says that others may wait for its end.
--
-- The rate is a bucket: one instant, `z`, at which it was empty; it fills with time, up to what a quarter of a second brings, or what
-- `burst` leaves beside a second's rate. `log` says what was pushed within the last second, so that no second sees more than `burst`.
-- What is pushed again, since it was lost, handed back or never claimed, has its permit of `running` still, and takes one of the rate's.
--
-- In a store of several partitions each has a part of the permits: of `running`, and of `burst` with the rate in proportion. It asks
-- the lambda's home for them (home.lua). `G` is what it ever got and `R` what it ever gave back: G - R is what it has. Both only grow,
-- and whoever hears of one takes the greater: so messages may be late, lost or doubled, and what all partitions have together is never
-- more than home believes. A permit of the rate can be given back once its last use is a second ago.

local IN_HAND = {'ENQUEUED', 'CLAIMED', 'PROCESSING'}
local SECOND = 1000000
local LOG_STEP = 10000  -- µs: pushes so close to each other share an entry of the log

local permits_key = remembered(function(P, name) return P .. ':p:' .. name end)
local ask_home  -- home.lua

local function in_hand(P, name)
  local count = 0
  for priority = 0, MAX_PRIORITY do
    local queue = name .. ':' .. priority
    for _, status in ipairs(IN_HAND) do count = count + redis.call('ZCARD', live_key(P, queue, status)) end
  end
  return count
end

-- The lambda's own limits: permits of each kind, n of `running` and b of `rate`.
local function limits_of(settings)
  local running, rate = tonumber(settings.running), tonumber(settings.rate)
  if not running and not rate then return nil end
  local burst = rate and (tonumber(settings.burst) or math.max(math.ceil(rate * 1.25), 1))
  return {n = running, b = burst, rate = rate, most = rate and math.max(burst - rate, rate / 4, 1)}
end

-- The bucket of `part` of the lambda's permits holds at least one task: the instant before which it can't have been empty.
local function fullest(limits, part, now)
  if part <= 0 then return now end
  local most = math.max(limits.most * part / limits.b, 1)
  return math.floor(now - most * SECOND * limits.b / (limits.rate * part))
end

-- What was pushed within the last second: entries {instant, number}, oldest first, and their sum.
local function read_log(text, now)
  local log, sum = {}, 0
  for at, number in string.gmatch(text or '', '(%d+):(%d+)') do
    at, number = tonumber(at), tonumber(number)
    if at > now then at = now end  -- the clock has stepped back
    if at + SECOND > now then
      log[#log + 1] = {at, number}
      sum = sum + number
    end
  end
  return log, sum
end

local function write_log(log, pushed, now)
  local last, lines = log[#log], {}
  if pushed == 0 then  -- as it is
  elseif last and now - last[1] < LOG_STEP and #log > 1 then
    last[1], last[2] = now, last[2] + pushed
  else
    log[#log + 1] = {now, pushed}
  end
  for i, each in ipairs(log) do lines[i] = fmt(each[1]) .. ':' .. fmt(each[2]) end
  return table.concat(lines, ' ')
end

-- How many tasks `part` of the rate's permits let through now, and from when on one more.
local function read_bucket(limits, part, z, text, now)
  local bucket = {left = 0, again = now + PERMIT_REVISIT}
  bucket.log, bucket.sum = read_log(text, now)
  bucket.z = math.min(math.max(z or 0, fullest(limits, part, now)), now)
  bucket.stepped_back = z and z > now  -- the clock: the bucket starts anew, empty
  if part <= 0 then return bucket end
  bucket.each = SECOND * limits.b / (limits.rate * part)  -- µs for one task
  local tokens = math.floor((now - bucket.z) / bucket.each + 0.000001)
  local cool = part - bucket.sum
  bucket.left = math.max(math.min(tokens, cool), 0)
  bucket.again = bucket.z + math.ceil((bucket.left + 1) * bucket.each)
  if cool <= bucket.left then
    local oldest = bucket.log[1]
    bucket.again = math.max(bucket.again, (oldest and oldest[1] or now) + SECOND)
  end
  return bucket
end

-- What a partition knows of its part: per kind what it has (G, R), the most to keep (C) and what it last said it needs (N). Servers may
-- forget: `e` is the last such instant of this partition's (see note_server) when it told home, `ae` when home answered, `he` is home's
-- own. What was said before no longer holds, and until home has answered nothing is used. `me` and `ms`: see epoch_of.
local NUMBERS = {'nG', 'nR', 'nC', 'nN', 'bG', 'bR', 'bC', 'bN', 'at', 's', 'v', 'e', 'ae', 'he', 'z', 'me', 'ms'}

-- When a server last forgot something, as home and the partitions tell each other: `settled` (see note_server), except that it never goes
-- back. The server that takes over may have lost that very number, and its clock may be behind: what it says would count as old for good.
-- `last` is what it was when settled was `seen`; whoever hears that others know of a later one goes on behind that.
local function epoch_of(last, seen, settled)
  if not last or last < settled then return settled end
  return (seen or last) == settled and last or last + 1
end
local function read_part(P, name)
  local known = redis.call('HMGET', permits_key(P, name), 'w', 'y', 'log', unpack(NUMBERS))
  local part = {waits = known[1] or '', paced = known[2] or '', log = known[3] or ''}
  for i, field in ipairs(NUMBERS) do part[field] = tonumber(known[i + 3] or nil) end
  return part
end

local function write_part(P, name, part, ...)
  local values = {}
  for _, field in ipairs({...}) do
    values[#values + 1] = field
    values[#values + 1] = part[field] and fmt(part[field]) or ''
  end
  redis.call('HSET', permits_key(P, name), unpack(values))
end

local function has(part, kind) return (part[kind .. 'G'] or 0) - (part[kind .. 'R'] or 0) end

local function may_use(part, kind, limit) return math.min(has(part, kind), part[kind .. 'C'] or limit, limit) end

-- What the rate leaves, once `again` tasks have been pushed again; `held`: others of those wait for it.
local function bound_by_rate(room, again, held, now)
  local left = math.max(room.bucket.left - again, 0)
  if held or not room.left or left < room.left then
    room.left, room.why = math.min(left, room.left or left), 'rate'
    room.again = math.max(room.bucket.again, now + RATE_STEP)
  end
end

-- What a lambda's limits leave of a queue's tasks: `left` may be pushed; those behind them need not be looked at before `again`, since
-- they wait for `why`. nil: it has no limits of this kind.
local function permits_for(P, queue, settings, now)
  local limits = limits_of(settings)
  if not limits then return nil end
  local name = lambda_of(queue)
  local room = {name = name, limits = limits, part = read_part(P, name), running = limits.n, used = {}, have = {}, need = {}}
  local record = redis.call('HMGET', P, 'partitions', 'settled')
  room.partitions, room.settled = tonumber(record[1] or 1), tonumber(record[2] or 0)
  room.epoch = epoch_of(room.part.me, room.part.ms, room.settled)
  local alone, knows = room.partitions == 1, room.part.ae == room.epoch
  if limits.n then
    room.used.n, room.have.n = in_hand(P, name), alone and limits.n or knows and may_use(room.part, 'n', limits.n) or 0
    room.left = math.max(room.have.n - room.used.n, 0)  -- mutant: permits_not_counted
    room.again, room.why = now + PERMIT_REVISIT, 'running'
  end
  if limits.b then
    room.have.b = alone and limits.b or knows and may_use(room.part, 'b', limits.b) or 0  -- mutant: burst_for_each_partition
    room.bucket = read_bucket(limits, room.have.b, room.part.z, room.part.log, now)
    room.used.b = room.bucket.sum
    bound_by_rate(room, 0, false, now)
  end
  return room
end

local function noted(digits, digit, waits)
  local others = string.gsub(digits, digit, '')
  return waits and others .. digit or others
end

-- Due tasks that wait in queues of a lambda for a place or for a permit. ENQUEUED ones wait to be pushed again: of these no more than
-- have left the queue, for what still stands in it only gets a new instant. (What was cancelled there hides as many, until it is popped.)
local function waiting(P, name, digits, statuses, now)
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

-- Tells home what this partition needs and what it gives back, where home does not know or others wait for it. After a while without
-- what it needs it says so again: what was said may have been lost.
local function tell_home(P, room, now)
  local part, limits, tell = room.part, room.limits, room.part.e ~= room.epoch
  local waits = waiting(P, room.name, part.waits .. part.paced, {'NEW', 'RETRIABLE_FAILURE'}, now)
  local often = part.at and now >= part.at and now - part.at < PERMIT_REVISIT
  for _, kind in ipairs({'n', 'b'}) do
    if limits[kind] then
      local need = room.used[kind] + waits
      if kind == 'b' then
        need = need + waiting(P, room.name, part.paced, {'ENQUEUED'}, now)  -- to be pushed again
        need = math.ceil(need * limits.b / limits.rate)
      end
      need = math.min(need, limits[kind])
      local cap, told = part[kind .. 'C'], part[kind .. 'N'] or 0
      local surplus = has(part, kind) - math.max(room.used[kind], math.min(cap or limits[kind], cap and need or limits[kind]))
      if surplus > 0 and part.ae == room.epoch then
        part[kind .. 'R'] = (part[kind .. 'R'] or 0) + surplus
        tell = true
      end
      if need > has(part, kind) and (need * 4 > told * 5 or not often) then tell = true end
      if cap and need * 2 < told then tell = true end
      room.need[kind] = need
    end
  end
  if not tell then return false end
  local before = has(part, 'n') + has(part, 'b')
  part.nN, part.bN = room.need.n or 0, room.need.b or 0
  part.e, part.at, part.s = room.epoch, now, (part.s or 0) + 1
  part.me, part.ms = room.epoch, room.settled
  write_part(P, room.name, part, 'nR', 'nN', 'bR', 'bN', 'e', 'at', 's', 'me', 'ms')
  ask_home(P, room.name, room.partitions, room.used.n or -1, part, now)
  part = read_part(P, room.name)  -- where home is here, it has answered already
  return has(part, 'n') + has(part, 'b') > before
end

-- `pushed` tasks have taken permits, `again` others only of the rate. `short`: there are due tasks left that had to wait. Returns whether
-- more may be pushed at once.
local function permits_taken(P, queue, room, pushed, again, short, now)
  local part, digit, key = room.part, string.sub(queue, -1), permits_key(P, room.name)
  local entries = pushed + again  -- mutant: pushed_again_for_nothing
  if room.bucket and (entries > 0 or room.bucket.stepped_back) then
    part.z = room.bucket.z + math.ceil(entries * (room.bucket.each or 0))  -- mutant: rate_not_taken
    redis.call('HSET', key, 'z', fmt(part.z), 'log', write_log(room.bucket.log, entries, now))
  end
  local waits, paced = noted(part.waits, digit, short and room.why == 'running'), noted(part.paced, digit, short and room.why == 'rate')
  if waits ~= part.waits or paced ~= part.paced then
    redis.call('HSET', key, 'w', waits, 'y', paced)
    part.waits, part.paced = waits, paced
  end
  if room.partitions == 1 then return false end
  if room.used.n then room.used.n = room.used.n + pushed end
  if room.used.b then room.used.b = room.used.b + entries end
  return tell_home(P, room, now)
end

-- Takes what home says of this partition's part: permits got, permits that it knows were given back, and the most to keep while others
-- wait (below 0: all). An older message than the last one changes nothing; nor does what was said before this server forgot something.
local function take_part(P, name, number, home_epoch, epoch, given, z, limits, now)
  local part = read_part(P, name)
  local heard, settled = part.he or -1, tonumber(redis.call('HGET', P, 'settled') or 0)
  local here = epoch_of(part.me, part.ms, settled)
  if home_epoch < heard or home_epoch == heard and number <= (part.v or 0) then return false end
  if home_epoch ~= heard then part.e = nil end  -- home has forgotten what it heard
  part.he, part.v = home_epoch, number
  if epoch > here then part.me, part.ms, part.e = epoch + 1, settled, nil end  -- home has heard of what this server has forgotten
  if epoch == here then
    part.ae = here
    for _, kind in ipairs({'n', 'b'}) do
      local before, cap = has(part, kind), given[kind .. 'C']
      if (part[kind .. 'R'] or 0) > given[kind .. 'R'] then part.e = nil end  -- what was given back is not known there yet
      part[kind .. 'G'] = math.max(part[kind .. 'G'] or 0, given[kind .. 'G'])
      part[kind .. 'R'] = math.max(part[kind .. 'R'] or 0, given[kind .. 'R'])
      part[kind .. 'C'] = cap >= 0 and cap or nil
      local more = has(part, kind) - before
      if kind == 'b' and more > 0 and limits and limits.b then
        local mine = math.max(part.z or 0, fullest(limits, before, now))
        part.z = before > 0 and math.floor((mine * before + z * more) / (before + more)) or z
      end
    end
  end
  write_part(P, name, part, 'nG', 'nR', 'nC', 'bG', 'bR', 'bC', 'v', 'e', 'ae', 'he', 'z', 'me', 'ms')
  for digit in string.gmatch(part.waits .. part.paced, '%d') do visit_by(P, name .. ':' .. digit, now) end
  if not part.e or part.nC or part.bC then visit_by(P, name .. ':0', now) end  -- home waits to be told, whatever waits here
  return true
end

-- Digits of the priorities of a lambda whose queues are known to wait for its limits.
local function waiting_priorities(P, name)
  local known = redis.call('HMGET', permits_key(P, name), 'w', 'y')
  return (known[1] or '') .. (known[2] or '')
end

-- Which of its lambda's limits a queue waits for: '', 'running=<number>' or 'rate=<number>'.
local function permits_wait(P, queue, door)
  if not door then return '' end
  local settings, why = settings_of(door), nil
  local known = redis.call('HMGET', permits_key(P, lambda_of(queue)), 'w', 'y')
  local digit = string.sub(queue, -1)
  if known[1] and string.find(known[1], digit, 1, true) then why = 'running' end
  if known[2] and string.find(known[2], digit, 1, true) then why = 'rate' end
  return why and settings[why] and why .. '=' .. settings[why] or ''
end

-- A task that was pushed with a permit has left its queue or its executor for good: what waits for that is looked at, and a permit that
-- others wait for is given back by a visit.
permit_freed = function(P, queue, now)
  local name = lambda_of(queue)
  local known = redis.call('HMGET', permits_key(P, name), 'w', 'nC')
  local waits = known[1] or ''
  if waits ~= '' then
    redis.call('HSET', permits_key(P, name), 'w', '')
    for digit in string.gmatch(waits, '%d') do visit_by(P, name .. ':' .. digit, now) end
  elseif known[2] and known[2] ~= '' then
    visit_by(P, queue, now)
  end
end
