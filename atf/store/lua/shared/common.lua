-- What every function of the library shares. store/library.py puts this file first and the verbs behind it.
--
-- A verb is called with KEYS[1] = the partition's record, "atf:{p}", and ARGV[1] = "" or, in tests, the instant to take for
-- the server's TIME. It reads everything it needs and checks it before it writes: Lua has no way back.
-- Instants and durations are integer microseconds; scores hold them exactly (2^53 µs is the year 2255).

local LIVE = {'NEW', 'RETRIABLE_FAILURE', 'ENQUEUED', 'CLAIMED', 'PROCESSING'}
local FINISHED = {SUCCESS = true, FATAL_FAILURE = true, CANCELLED = true}
local MOVED = {  -- the field that holds the time of the last move into a state
  NEW = 't1', ENQUEUED = 't2', CLAIMED = 't3', PROCESSING = 't4', SUCCESS = 't5', RETRIABLE_FAILURE = 't6',
  FATAL_FAILURE = 't7', CANCELLED = 't8',
}
local NOTHING = {}  -- for what mostly is empty: a table costs as much as half a command. Nobody writes into it
local OUTBOX = '>'  -- the outbox's member in the due index; no queue can have this name
-- The live tasks of a job stand in a sorted set, scored by what they are to it:
local ticks = {
  ORPHAN = 0,  -- a tick that runs, of a job that was deleted; the ticks of one of its name that was made since wait for it as for their own
  TICK = 1,
  HELD = 2,  -- a tick that the job's pause has met: it waits for the job to go on, or will when its run has failed
  BESIDE = 3,  -- a task that somebody had made beside the ticks
  OF = '@',  -- begins the field w of a tick, before the job's name
  BESIDE_OF = '+',  -- the same, of a task that was made beside the ticks
  LAST_RUN = 'j',  -- the field x of a task whose job was deleted while it ran
}
local STOPPED = '!'  -- in front of an ordering key's tasks, before the id of the one that failed: the key has stopped

-- What was made before is remembered: to build a string costs as much as half a command.
local REMEMBERED = 2000  -- then all is forgotten
local KEYS_REMEMBERED = 32768  -- each of 3,000 lambdas has ten that its tasks need

local texts, texts_count = {}, 0
local function fmt(number)
  local text = texts[number]
  if not text then  -- most calls are about a few instants
    if texts_count == REMEMBERED then texts, texts_count = {}, 0 end
    text = string.format('%d', number)  -- tostring says 1.7e+15
    texts[number], texts_count = text, texts_count + 1
  end
  return text
end

-- By partition, by name of a queue, a lambda or what else, by maker: a key, or one by status or number. A table for each would cost more
-- than what stands in it.
local made, made_count, makers = {}, 0, 0
local function remembered(make)
  makers = makers + 1
  local maker = makers
  return function(P, name, more)
    local names = made[P]
    local keys = names and names[name]
    local key = keys and keys[maker]
    if key and more then key = key[more] end
    if key then return key end
    if made_count >= KEYS_REMEMBERED then made, made_count = {}, 0 end
    made_count = made_count + 1
    made[P] = made[P] or {}
    made[P][name] = made[P][name] or {}
    keys, key = made[P][name], make(P, name, more)
    if more then
      keys[maker] = keys[maker] or {}
      keys[maker][more] = key
    else
      keys[maker] = key
    end
    return key
  end
end

local function instant(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- keys; atf/store/keys.py documents each ---------------------------------------------------------------------------------

local key_P, key_id, last_key
local function task_key(P, id)
  if id ~= key_id or P ~= key_P then key_P, key_id, last_key = P, id, P .. ':t:' .. id end
  return last_key
end
local part_key = remembered(function(P, batch) return P .. ':b:' .. batch end)
local live_key = remembered(function(P, queue, status) return P .. ':s:' .. queue .. ':' .. status end)
local done_key = remembered(function(P, name, status) return P .. ':f:' .. name .. ':' .. status end)
local queue_key = remembered(function(P, queue) return P .. ':q:' .. queue end)
local lambda_key = remembered(function(P, name) return P .. ':l:' .. name end)
local function order_key(P, key) return P .. ':o:' .. key end
local stops_key = remembered(function(P, name) return P .. ':stops:' .. name end)
local function slots_key(P, key) return P .. ':slots:' .. key end
local function line_key(P, key) return P .. ':line:' .. key end
local function pauses_key(P, batch) return P .. ':b:' .. batch .. ':p' end
local function job_key(P, name) return P .. ':j:' .. name end
function ticks.key(P, name) return P .. ':ticks:' .. name end
local list_key = remembered(function(P, queue) return 'rq:queue:' .. string.sub(P, 5) .. queue end)  -- "atf:{0}" -> "{0}"
local lambda_of_ = remembered(function(_, queue) return string.sub(queue, 1, -3) end)                -- "ns/name:1" -> "ns/name"
local function lambda_of(queue) return lambda_of_('', queue) end

local PART = 1000  -- values of one command; Lua can unpack some thousands

-- the due index ------------------------------------------------------------------------------------------------------------

-- Makes sure that a queue is visited at `at` or before, and wakes the store consumers where that is earlier than anything
-- else they wait for.
local function visit_by(P, queue, at)
  local index = P .. ':due'
  if redis.call('ZADD', index, 'LT', 'CH', fmt(at), queue) == 0 then return end
  if redis.call('ZRANGE', index, 0, 0)[1] == queue then redis.call('SPUBLISH', P .. ':bell:due', queue) end
end

-- The same for several queues, by the instants in `ats`: a few calls instead of two per queue.
local function visit_all_by(P, ats)
  local index, scores, only = P .. ':due', {}, next(ats)
  if not only then return end
  if not next(ats, only) then return visit_by(P, only, ats[only]) end
  for queue, at in pairs(ats) do scores[#scores + 1], scores[#scores + 2] = fmt(at), queue end
  local before = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
  for first = 1, #scores, PART do
    redis.call('ZADD', index, 'LT', unpack(scores, first, math.min(first + PART - 1, #scores)))
  end
  local after = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
  if before[1] ~= after[1] or before[2] ~= after[2] then redis.call('SPUBLISH', P .. ':bell:due', after[1]) end
end

-- Has a job looked at from `at` on, and wakes the store consumers where that is earlier than any other job. Jobs have an index of
-- their own.
function ticks.look_at_job(P, name, at)
  local first = redis.call('ZRANGE', P .. ':jobs', 0, 0, 'WITHSCORES')
  redis.call('ZADD', P .. ':jobs', fmt(at), name)
  if not first[2] or at < tonumber(first[2]) then redis.call('SPUBLISH', P .. ':bell:due', '') end
end

-- The rank at which a page of a sorted set begins that follows the one that ended with `member`, scored `at` ("" = the first page).
local function page_start(set, at, member)
  if member == '' then return 0 end
  local rank = redis.call('ZRANK', set, member)
  if rank and tonumber(redis.call('ZSCORE', set, member)) == tonumber(at) then return rank + 1 end
  return redis.call('ZCOUNT', set, '-inf', '(' .. at)  -- it has moved meanwhile
end

-- A number that grows, also across a server that lost its last second.
local function grown(key, field, now)
  local number = fmt(math.max(tonumber(redis.call('HGET', key, field) or 0) + 1, now))
  redis.call('HSET', key, field, number)
  return number
end

-- the server --------------------------------------------------------------------------------------------------------------

-- Notes how far TIME has come, where that is `least` further than it was noted to be (`clock`). Where TIME has gone back, leases end early
-- that are given before it is set forward again, and a store consumer that had no answer in between can't tell. So no store consumer ends
-- any until it has seen a heartbeat timeout go by since it was told (see enqueue.lua). Returns what that step back is known by, or nil.
local function note_clock(P, now, clock, least)
  local behind = tonumber(clock or 0) - now
  if behind > CLOCK.STEP then  -- mutant: step_back_unnoticed
    redis.call('HSET', P, 'clock', fmt(now), 'stepped', clock)
    return clock
  elseif behind <= -least then
    redis.call('HSET', P, 'clock', fmt(now))
  end
end

-- How long no claims are given at least, or nil: a pause of claims is over once `calm` is `settled`. That is so when a pass of a store
-- consumer has seen `settled` go by on the clock that it believes, since this server's clock may leap ahead while executors whose claims
-- were forgotten live on; or as soon as it is known that nothing was forgotten.
local function pause_left(settled, calm, now)
  if not settled or tonumber(calm or nil) == settled then return nil end
  return now < settled and settled - now or CLOCK.REVISIT
end

-- No claims are given from now on, for so long. `cause` is for people: "restart", "emptied" or "import". Returns the pause's end: another
-- one each time, since it is an epoch, too.
local function pause_claims(P, settled, now, time, cause)
  settled = math.max((settled or 0) + 1, now + time)
  redis.call('HSET', P, 'settled', fmt(settled), 'cause', cause)
  return settled
end

-- The roster: who may have been answered leases, each by a name that it has had since it was put there -> TIME of its last call that gave
-- or renewed some, or one more: a number that grows with every one. Where a server comes back with a prefix of what it had written, the last
-- of these writes says that all before it are there. So nobody is answered a lease whose name is not on the roster, and is there to stay
-- (enlist.lua). After a restart the names are asked (`asked`) instead, and each holder has to come back under a new one: with the highest
-- number that it was answered under the one before. When all have said that theirs is there, the pause of claims is over.
-- A name may be struck off at any time, since that, too, is written behind all that it was answered.
roster.key = remembered(function(P, name) return P .. ':' .. name end)
roster.EPOCH = '@'  -- in `asked`, beside the names: the pause that they may end, by its `settled`; 0 = none
roster.MEMORY = {['1'] = 2, p = 1}  -- what a server has after a restart: 1 all that it has answered, p a prefix of it, 0 nobody knows

-- The number of a holder's last call; nil: it is not on the roster.
function roster.last(P, name)
  return tonumber(redis.call('HGET', roster.key(P, 'roster'), name) or nil)
end

-- Counts a call that gives or renews leases; returns its number. Added up: if the middle of a file were lost, its end would not hide that.
function roster.count(P, name, last, now)
  return fmt(redis.call('HINCRBY', roster.key(P, 'roster'), name, fmt(math.max(now - last, 1))))
end

-- How many are still to answer.
function roster.left(P)
  return #redis.call('HGETALL', roster.key(P, 'asked')) / 2 - 1
end

-- How claims are paused here, for people: for how long at least (µs), 1 = that is over and no store consumer has seen it yet, whose answers
-- end it sooner (how many are still to answer; 0: none), its cause. Empty: claims are given.
function roster.pause(P, now)
  local record = redis.call('HMGET', P, 'settled', 'calm', 'cause')
  local settled = tonumber(record[1] or nil)
  local left = pause_left(settled, record[2], now)
  if not left then return NOTHING end
  local ends = tonumber(redis.call('HGET', roster.key(P, 'asked'), roster.EPOCH) or nil) == settled
  return {fmt(left), now >= settled and 1 or 0, ends and roster.left(P) or 0, record[3]}
end

-- Puts a name on a list, with its number, unless it is there.
function roster.put(list, name, number)
  if redis.call('HEXISTS', list, name) == 0 then redis.call('HSET', list, name, number) end
end

-- Ends the pause of claims where nobody is left to be asked.
function roster.answered(P, settled)
  local asked = roster.key(P, 'asked')
  if roster.left(P) > 0 then return false end  -- mutant: silent_holder_ignored
  if tonumber(redis.call('HGET', asked, roster.EPOCH) or nil) ~= settled then return false end
  redis.call('DEL', asked)
  redis.call('HSET', P, 'calm', fmt(settled))
  return true
end

-- Asks all on the roster. `before` is how long the pause before this one had still to last, and `old` its end: only one that its own answers
-- may end does not make this one last its whole time. Returns whether there was nobody to ask: the pause is over.
function roster.ask(P, prefix, before, old, settled)
  local listed, asked = roster.key(P, 'roster'), roster.key(P, 'asked')
  local names = redis.call('HGETALL', listed)
  for i = 1, #names, 2 do roster.put(asked, names[i], names[i + 1]) end
  redis.call('DEL', listed)
  local may = prefix and (not before or tonumber(redis.call('HGET', asked, roster.EPOCH) or nil) == old)
  redis.call('HSET', asked, roster.EPOCH, may and fmt(settled) or '0')
  return roster.answered(P, settled)
end

-- Strikes off who has not been heard of for long. One that lives is put there again with its next call.
function roster.strike(P, now)
  local names = redis.call('HGETALL', roster.key(P, 'roster'))
  for i = 1, #names, 2 do
    if tonumber(names[i + 1]) < now - roster.SILENT then redis.call('HDEL', roster.key(P, 'roster'), names[i]) end
  end
end

-- Notes which server process this is. One that restarted or took over may have forgotten claims that their executors still
-- hold: for one heartbeat timeout, so that those executors have ended by then, it gives none. Only where neither this process
-- nor the one before forgets anything is there no such pause; where both have at least a prefix, the roster may end it. While roles change to
-- a longer timeout, which is on record then, the longer one counts. Returns how long claims are refused, or nil; whether any lambda here has
-- gates that look at single tasks; and how far TIME was noted to have come.
local function note_server(P, server, memory, now, timeout)
  local record = redis.call('HMGET', P, 'server', 'settled', 'durable', 'gated', 'clock', 'calm')
  local settled = tonumber(record[2] or nil)
  local pause = pause_left(settled, record[6], now)
  if server ~= '' and record[1] ~= server then
    redis.call('HSET', P, 'server', server, 'durable', memory)
    if record[1] and (memory ~= '1' or record[3] ~= '1') then
      local known, old = redis.call('HGET', P, 'timeout'), settled
      settled = pause_claims(P, settled, now, math.max(timeout, tonumber(known or 0)), 'restart')
      redis.call('HSET', P, 'forgot', '1')
      local over = roster.ask(P, roster.MEMORY[memory] and roster.MEMORY[record[3]], pause, old, settled)
      pause = not over and settled - now or nil
    end
  elseif server ~= '' and (roster.MEMORY[memory] or 0) < (roster.MEMORY[record[3]] or 0) then
    redis.call('HSET', P, 'durable', memory)  -- its settings were changed: what it forgets from now on, it forgets
  end
  return pause, tonumber(record[4] or 0) > 0, record[5]  -- mutant: no_pause_after_rollback
end

-- items of batches ---------------------------------------------------------------------------------------------------------

-- As what a batch counts an item, by the status of its task; the fields of a partition's part of it.
local COUNTED = {
  NEW = 'c0', ENQUEUED = 'c0', CLAIMED = 'c1', PROCESSING = 'c1', SUCCESS = 'c100', RETRIABLE_FAILURE = 'c-1',
  FATAL_FAILURE = 'c-2', CANCELLED = 'c-3',
}
local batch_counted  -- batches.lua

-- The batch of an item, by its id "<partition>-<batch>.<md5>"; no other task's id has a dot.
local function batch_of(id)
  local dot = string.find(id, '.', 1, true)
  return dot and string.sub(id, string.find(id, '-', 1, true) + 1, dot - 1) or nil
end

-- Adds to the counts that this partition keeps of a batch: field -> by how much.
local function count_items(P, batch, counts, now)
  for field, by in pairs(counts) do
    if by ~= 0 then redis.call('HINCRBY', part_key(P, batch), field, by) end
  end
  if (counts.c1 or 0) > 0 then redis.call('HSET', part_key(P, batch), 'begun', '1') end
  batch_counted(P, batch, now)
end

-- sets ---------------------------------------------------------------------------------------------------------------------

-- Where the moves below write what they change in sets: at once, or gathered.
local AT_ONCE = {
  ZADD = function(key, score, member) redis.call('ZADD', key, score, member) end,
  ZREM = function(key, member) redis.call('ZREM', key, member) end,
  SADD = function(key, member) redis.call('SADD', key, member) end,
  COUNT = function(P, batch, from, to, now) count_items(P, batch, {[from] = -1, [to] = 1}, now) end,
}

-- Calls work(sets, ...), and then writes what it has put there: one command per set costs a fraction of one per task. A task moves
-- once in a call at most, also where a call names it twice. Also if `work` fails: what has moved must be found where it is now.
-- Of one task there is nothing to gather: the tables that it takes would be most of a call's garbage.
local function gathering(tasks, work, ...)
  if tasks == 1 then return work(AT_ONCE, ...) end
  local order, values, noted, counts = {}, {ZADD = {}, ZREM = {}, SADD = {}}, {}, nil
  local function list(command, key)
    local into = values[command][key]
    if not into then
      into = {}
      values[command][key] = into
      order[#order + 1] = {command, key, into}
    end
    return into
  end
  local done, failure = pcall(work, {
    ZADD = function(key, score, member)
      local into = list('ZADD', key)
      local count = #into
      into[count + 1], into[count + 2] = score, member
    end,
    ZREM = function(key, member)
      local into = list('ZREM', key)
      into[#into + 1] = member
    end,
    SADD = function(key, member)
      if noted[member] then return end
      noted[member] = true
      local members = list('SADD', key)
      members[#members + 1] = member
    end,
    COUNT = function(P, batch, from, to, now)
      counts = counts or {P = P, now = now, of = {}}
      local mine = counts.of[batch]
      if not mine then
        mine = {}
        counts.of[batch] = mine
      end
      mine[from], mine[to] = (mine[from] or 0) - 1, (mine[to] or 0) + 1
    end,
  }, ...)
  for _, command in ipairs({'SADD', 'ZADD', 'ZREM'}) do  -- in this order: what was renewed and then moved has left
    for _, each in ipairs(order) do
      for first = 1, each[1] == command and #each[3] or 0, PART do
        redis.call(command, each[2], unpack(each[3], first, math.min(first + PART - 1, #each[3])))
      end
    end
  end
  for batch, mine in pairs(counts and counts.of or {}) do count_items(counts.P, batch, mine, counts.now) end
  if not done then error(failure, 0) end
end

-- moves --------------------------------------------------------------------------------------------------------------------

-- A task goes from one status to another: its batch counts that, if it is an item.
local function recount(P, sets, id, from, to, now)
  if COUNTED[from] == COUNTED[to] then return end
  local batch = batch_of(id)
  if batch then sets.COUNT(P, batch, COUNTED[from], COUNTED[to], now) end
end

-- Moves a live task between two live states. `fields` are more fields to set.
local function move(P, sets, id, queue, from, to, score, now, ...)
  if from ~= to then
    sets.ZREM(live_key(P, queue, from), id)
    recount(P, sets, id, from, to, now)  -- mutant: items_lost_uncounted
  end
  sets.ZADD(live_key(P, queue, to), fmt(score), id)
  redis.call('HSET', task_key(P, id), 's', to, MOVED[to], fmt(now), ...)
end

-- A lambda's settings as a table; as text they are "name=value name=value".
local function settings_of(text)
  local found = {}
  for name, value in string.gmatch(text or '', '([a-z_]+)=(%S*)') do found[name] = value end
  return found
end

-- Until when nothing of an ordering key may start, where that is a target of a batch that wants a pause between two items.
local function paused_until(P, key, id)
  local batch = batch_of(id)
  return batch and tonumber(redis.call('HGET', pauses_key(P, batch), key) or nil) or 0
end

-- An item of such a target has ended, or has failed: the pause begins.
local function pause_target(P, key, id, now)
  local batch = batch_of(id)
  local pause = batch and redis.call('HGET', task_key(P, id), 'gap')
  if pause then redis.call('HSET', pauses_key(P, batch), key, fmt(now + tonumber(pause))) end
end

-- What is now at the head of an ordering key may become due.
local function advance(P, key, now)
  local list = order_key(P, key)
  for _ = 1, PART do
    local id = redis.call('LINDEX', list, 0)
    if not id or string.sub(id, 1, 1) == STOPPED then return end
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'at')
    if task[1] and task[1] ~= 'TOMBSTONE' and not FINISHED[task[1]] then
      if task[1] == 'NEW' then
        local at = math.max(tonumber(task[3]), now, paused_until(P, key, id))
        redis.call('ZADD', live_key(P, task[2], 'NEW'), fmt(at), id)
        visit_by(P, task[2], at)
      end
      return
    end
    redis.call('LPOP', list)  -- somebody has deleted its record: it must not hold up the others
  end
end

-- A task of an ordering key has finished: the next one may become due, or the key stops where it failed.
local function release(P, key, id, queue, to, now)
  local list = order_key(P, key)
  if redis.call('LINDEX', list, 0) ~= id then
    redis.call('LREM', list, 1, id)
    return
  end
  redis.call('LPOP', list)
  pause_target(P, key, id, now)
  local name = lambda_of(queue)
  local stops = to == 'FATAL_FAILURE' and not batch_of(id)  -- mutant: stopped_key_goes_on
  if stops and settings_of(redis.call('HGET', lambda_key(P, name), 'door')).stop == '1' then
    redis.call('LPUSH', list, STOPPED .. id)
    redis.call('ZADD', stops_key(P, name), fmt(now), key)
  else
    advance(P, key, now)
  end
end

-- FATAL_FAILURE, CANCELLED -> NEW, due at `at`, which is now unless it is given, or behind others of its ordering key: at their end, or where it stopped them.
-- A window of its unique key that is open becomes its own. Where an unfinished task holds that, nothing is done, and that task is returned.
local function start_afresh(P, id, queue, status, key, now, at, sets)
  local unique, waits = redis.call('HGET', task_key(P, id), 'uk'), false
  if unique and tonumber(redis.call('ZSCORE', P .. ':uniques:expiry', unique) or 0) > now then
    local holder = redis.call('HGET', P .. ':uniques', unique)
    local its = holder ~= id and redis.call('HGET', task_key(P, holder), 's')
    if its and not FINISHED[its] then return holder end  -- mutant: retry_beside_holder
    redis.call('HSET', P .. ':uniques', unique, id)
  end
  at = at or now
  if key then at = math.max(at, paused_until(P, key, id)) end
  if key and redis.call('LINDEX', order_key(P, key), 0) == STOPPED .. id then
    redis.call('LPOP', order_key(P, key))
    redis.call('LPUSH', order_key(P, key), id)
    redis.call('ZREM', stops_key(P, lambda_of(queue)), key)
  elseif key then
    waits = redis.call('RPUSH', order_key(P, key), id) > 1
  end
  redis.call('ZREM', done_key(P, lambda_of(queue), status), id)
  redis.call('HDEL', task_key(P, id), 'a', 'l', 'y', 'm', 'err', 'f', 'p', 'e', 'z', 'g', 'gd', 'v', 'mf', 'me', 'hd')
  redis.call('HSET', task_key(P, id), 's', 'NEW', 'at', fmt(at), 't1', fmt(now))
  redis.call('ZADD', live_key(P, queue, 'NEW'), waits and '+inf' or fmt(at), id)
  if not waits then visit_by(P, queue, at) end
  recount(P, sets or AT_ONCE, id, status, 'NEW', now)
end

-- Gives the free slots of a concurrency key to those that have waited longest: they are due, and hold them from now on.
local function give_slots(P, key, now)
  local taken = redis.call('ZCARD', slots_key(P, key))
  for _ = 1, PART do
    local first = redis.call('ZRANGE', line_key(P, key), 0, 0, 'WITHSCORES')
    local id = first[1]
    if not id then
      redis.call('ZREM', P .. ':lines', key)
      return
    end
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'kc')
    local waits = task[3] and (task[1] == 'NEW' or task[1] == 'RETRIABLE_FAILURE')  -- else somebody has deleted its record
    if waits and taken >= tonumber(string.match(task[3], ' (%d+) ')) then return end
    redis.call('ZREM', line_key(P, key), id)
    if waits then
      redis.call('ZADD', slots_key(P, key), fmt(now), id)
      redis.call('ZADD', live_key(P, task[2], task[1]), first[2], id)
      visit_by(P, task[2], now)
      taken = taken + 1
    end
  end
end

-- A task of a job is live from now on. The name is listed where its deletion by prefix finds it, also when the job has ended.
function ticks.add(P, name, id, kind)
  redis.call('ZADD', ticks.key(P, name), kind, id)
  redis.call('ZADD', P .. ':ticking', 0, name)
end

-- Strikes off a job that has no tasks left which could be cancelled.
function ticks.strike_off(P, name)
  if redis.call('ZCOUNT', ticks.key(P, name), ticks.TICK, ticks.BESIDE) == 0 then redis.call('ZREM', P .. ':ticking', name) end
end

-- A task of a job has ended.
function ticks.drop(P, name, id)
  redis.call('ZREM', ticks.key(P, name), id)
  ticks.strike_off(P, name)
end

-- A tick of a job has ended: what waits for that may be due.
function ticks.ended(P, name, id, status, now)
  ticks.drop(P, name, id)
  local job = redis.call('HMGET', job_key(P, name), 'g', 'n', 'p', 'task', 'o')
  if not job[1] then return end
  if job[4] == id then redis.call('HSET', job_key(P, name), 'out', status) end
  if redis.call('ZCOUNT', ticks.key(P, name), ticks.ORPHAN, ticks.HELD) == 0 then
    redis.call('HSET', job_key(P, name), 'ended', fmt(now))
  elseif job[5] ~= 'cancel_running' then  -- else the next of them is to be cancelled
    return
  end
  if job[2] ~= '' and not job[3] then ticks.look_at_job(P, name, tonumber(job[2])) end
end

local permit_freed  -- permits.lua
local count_ends  -- gates.lua

-- A task has failed for good: the version of its lambda's code is noted, where the code says one.
local function note_version(P, id, name)
  local version = settings_of(redis.call('HGET', lambda_key(P, name), 'door')).version
  if version then redis.call('HSET', task_key(P, id), 'v', version) end
end

-- A task leaves its queue, or its executor, for good or for a while: what it held meanwhile (its field `h`, letters: p a permit,
-- k a slot of its concurrency key or a place in that key's line) others may have.
local function let_go(P, id, queue, held, now)
  if not held then return end
  redis.call('HDEL', task_key(P, id), 'h')
  if string.find(held, 'p', 1, true) then permit_freed(P, queue, now) end
  if string.find(held, 'k', 1, true) then
    local key = string.match(redis.call('HGET', task_key(P, id), 'kc'), '^%S+')
    redis.call('ZREM', slots_key(P, key), id)
    redis.call('ZREM', line_key(P, key), id)
    give_slots(P, key, now)
  end
end

-- Keeps a tick that waits, or is about to, until its job goes on: NEW, RETRIABLE_FAILURE -> the same, never due; ENQUEUED -> NEW, never due.
-- `at`: when it would be due. `held`: see let_go.
function ticks.keep(P, sets, name, id, queue, status, at, held, now)
  redis.call('ZADD', ticks.key(P, name), ticks.HELD, id)
  redis.call('HSET', task_key(P, id), 'hd', fmt(at))
  if status == 'ENQUEUED' then  -- it passes its queue's door anew
    sets.ZREM(live_key(P, queue, status), id)
    status = 'NEW'
    redis.call('HDEL', task_key(P, id), 'e')
    redis.call('HSET', task_key(P, id), 's', status, MOVED[status], fmt(now))
    let_go(P, id, queue, held, now)
  end
  sets.ZADD(live_key(P, queue, status), '+inf', id)
end

-- The run of a task that somebody watches has not ended it. Where it is a tick, and its job is paused, it does not run again before that goes on.
function ticks.hold(P, sets, id, queue, status, watched, at, held, now)
  if string.sub(watched, 1, 1) ~= ticks.OF then return end
  local name = string.sub(watched, 2)
  if redis.call('HEXISTS', job_key(P, name), 'p') == 1 then ticks.keep(P, sets, name, id, queue, status, at, held, now) end  -- mutant: pause_forgets_retries
end

local sweep_key = remembered(function(P) return P .. ':sweep' end)
local swept = remembered(function(_, name, status) return name .. ':' .. status end)

-- Ends a task: out of the due index, into the set of its lambda and status until its retention is over. More fields to set
-- may follow. `held`: see let_go.
local function rest(P, sets, id, queue, from, to, now, limits, ordering, watched, flagged, held, ...)
  local name = lambda_of(queue)
  local retention = limits and tonumber(string.match(limits, '^%d+ %d+ (%d+)')) or DEFAULT_RETENTION
  sets.ZREM(live_key(P, queue, from), id)
  local batch = batch_of(id)
  sets.ZADD(done_key(P, name, to), fmt(now + retention), id)
  sets.SADD(sweep_key(P, ''), swept(P, name, to))
  redis.call('HSET', task_key(P, id), 's', to, MOVED[to], fmt(now), 'e', '', 'o', '', ...)
  if watched or flagged then redis.call('HDEL', task_key(P, id), 'x', 'w') end  -- empty would count as set
  if held then let_go(P, id, queue, held, now) end
  if to == 'FATAL_FAILURE' then note_version(P, id, name) end
  if ordering then release(P, ordering, id, queue, to, now) end
  if watched then
    local of = string.sub(watched, 1, 1)
    if of == ticks.OF then ticks.ended(P, string.sub(watched, 2), id, to, now) end
    if of == ticks.BESIDE_OF then ticks.drop(P, string.sub(watched, 2), id) end
    redis.call('SPUBLISH', P .. ':bell:done', id)
  end
  if batch then sets.COUNT(P, batch, COUNTED[from], COUNTED[to], now) end
end

-- The field R with a run more that has ended: owner, start, end, attempt, why. The last ones are kept.
local function with_run(runs, owner, started, ended, attempt, why)
  local line = owner .. '\t' .. string.format('%d\t%d\t%d\t', started, ended, attempt) .. why .. '\n'
  if not runs then return line end
  local _, count = string.gsub(runs, '\n', '')
  if count >= ENDED_RUNS_KEPT then runs = string.match(runs, '^[^\n]*\n(.*)$') end
  return runs .. line
end

-- Whether a task was cancelled, by whomever, and its lambda was never called.
local function never_ran(P, id)
  local task = redis.call('HMGET', task_key(P, id), 's', 'a', 't4', 'R')
  if task[1] ~= 'CANCELLED' or task[2] or task[3] then return false end
  return not string.find('\n' .. (task[4] or ''), '\n[^\t\n]*\t[1-9]')  -- a run that ended, and had started
end

-- How often in a row the end of a lease has counted nothing (the field y): where its executor drained, and where the run had not said
-- that it started.
local function lapses_of(text)
  local draining, unstarted = string.match(text or '', '^(%d+) (%d+)$')
  return tonumber(draining or 0), tonumber(unstarted or 0)
end

-- A lease has run out. Returns why, how often in a row that has counted nothing now, or nil where it counts as a loss, and whether
-- the task is to run alone from now on. A run that has started ends the second row.
local function lapse(status, marked, text)
  local draining, unstarted = lapses_of(text)
  if status == 'PROCESSING' then unstarted = 0 end
  if marked then
    draining = draining + 1
    local left = draining <= LAPSES.DRAINING  -- mutant: drained_lapses_left
    return 'lease expired while its executor drained', left and draining .. ' ' .. unstarted or nil, false
  elseif status == 'PROCESSING' then
    return 'lease expired', nil, false
  end
  unstarted = unstarted + 1
  local left = unstarted <= LAPSES.UNSTARTED  -- mutant: unstarted_lapses_left
  local alone = not left  -- mutant: unstarted_and_not_alone
  return 'lease expired before the run said that it started', left and draining .. ' ' .. unstarted or nil, alone
end

-- A run has ended with its executor, or its lease has run out (no `why`): CLAIMED, PROCESSING -> ENQUEUED, to be pushed again at once;
-- FATAL_FAILURE where it has been lost too often; CANCELLED where that was asked for. `shared`: see report_loss.lua.
local function lose_task(P, id, now, why, shared)
  local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'a', 'l', 'lim', 'R', 'o', 't4', 'x', 'k', 'w', 't3', 'h', 'c', 'm', 'y')
  local status, queue = task[1], task[2]
  local losses, lapses = tonumber(task[4] or 0), nil
  local alone = shared and losses > 0
  local counted = not alone  -- mutant: crash_in_a_drain_is_forgiven
  if not why then
    why, lapses, alone = lapse(status, task[15] == task[14], task[16])  -- mutant: mark_outlives_its_claim
    counted = not lapses
  end
  if counted then losses = losses + 1 end
  local started = tonumber(status == 'PROCESSING' and task[8] or 0)
  local runs = with_run(task[6], task[7] or '', started, now, tonumber(task[3] or 0) + 1, 'lost: ' .. why .. (counted and '' or ' (not counted)'))
  if task[9] then
    rest(P, AT_ONCE, id, queue, status, 'CANCELLED', now, task[5], task[10], task[11], true, task[13], 'l', losses, 'R', runs)
  elseif counted and losses >= tonumber(string.match(task[5] or DEFAULT_LIMITS, '^%d+ (%d+)')) then  -- mutant: one_loss_more
    local err = 'lost with its executor ' .. losses .. ' times; last: ' .. why
    rest(P, AT_ONCE, id, queue, status, 'FATAL_FAILURE', now, task[5], task[10], task[11], false, task[13], 'l', losses, 'R', runs, 'err', err)
    count_ends(P, lambda_of(queue), 1, 1, now)
  else
    redis.call('HDEL', task_key(P, id), 'e', 'o')
    move(P, AT_ONCE, id, queue, status, 'ENQUEUED', now, now, 'l', losses, 'R', runs)  -- mutant: lost_task_waits
    if alone then redis.call('HSET', task_key(P, id), 'z', '1') end
    if lapses then redis.call('HSET', task_key(P, id), 'y', lapses) elseif task[16] then redis.call('HDEL', task_key(P, id), 'y') end
    if task[11] then ticks.hold(P, AT_ONCE, id, queue, 'ENQUEUED', task[11], now, task[13], now) end
    visit_by(P, queue, now)
  end
end

-- Whether the caller's token is the task's, and the task is held: the condition of every move out of a claim.
local function holds(status, counter, nonce, task_counter, task_nonce)
  return (status == 'CLAIMED' or status == 'PROCESSING') and task_counter == counter and task_nonce == nonce  -- mutant: no_fence
end

-- A change that this partition owes another one. It lies in the due index until it has been delivered. Returns its number.
local function owe(P, target, body, now)
  local number = fmt(redis.call('HINCRBY', P, 'outbox', 1))
  redis.call('HSET', P .. ':outbox', number, target .. '\n' .. body)
  redis.call('ZADD', P .. ':outbox:due', fmt(now), number)
  visit_by(P, OUTBOX, now)
  return number
end

-- settings of lambdas -------------------------------------------------------------------------------------------------------

-- Whether tasks of a lambda may be given to a pool now; and how it says that they are to be placed, where it does.
local function given(P, name, pool)
  local config = redis.call('HMGET', lambda_key(P, name), 'paused', 'door')
  local settings = config[2] and settings_of(config[2]) or NOTHING
  return config[1] ~= '1' and (settings.pool or '') == pool, settings.placement
end

-- Has all queues of a lambda looked at that hold live tasks.
local function visit_lambda(P, name, now)
  local sets = {}
  for priority = 0, MAX_PRIORITY do
    for _, status in ipairs(LIVE) do sets[#sets + 1] = live_key(P, name .. ':' .. priority, status) end
  end
  if redis.call('EXISTS', unpack(sets)) == 0 then return end  -- as when it is new: one call for all of its queues
  for priority = 0, MAX_PRIORITY do
    local first = priority * #LIVE + 1
    if redis.call('EXISTS', unpack(sets, first, first + #LIVE - 1)) > 0 then visit_by(P, name .. ':' .. priority, now) end
  end
end

local settings_changed  -- home.lua

-- Of which versions a partition knows a lambda's settings and gates.
local function versions_of(P, name)
  local known = redis.call('HMGET', lambda_key(P, name), 'rv', 'gv')
  return tonumber(known[1] or 0), tonumber(known[2] or 0)
end

-- Writes what holds of a lambda within one partition. The queue's limit and timeout have fields of their own, which every visit
-- reads; all else is the field `door`, which most lambdas don't have.
local function put_settings(P, name, limit, timeout, door, version, now)
  local key = lambda_key(P, name)
  local known = redis.call('HMGET', key, 'limit', 'timeout', 'door')
  redis.call('HSET', key, 'limit', limit, 'timeout', timeout, 'rv', version)
  if door ~= '' then redis.call('HSET', key, 'door', door) elseif known[3] then redis.call('HDEL', key, 'door') end
  if known[1] ~= limit or known[2] ~= timeout or (known[3] or '') ~= door then visit_lambda(P, name, now) end
  if (known[3] or '') ~= door then
    settings_changed(P, name, now)
    if settings_of(door).placement == 'spread' then placement.spread(P, name, now) end
  end
  local watched, watched_before = settings_of(door).fatal ~= nil, settings_of(known[3]).fatal ~= nil
  if watched ~= watched_before then redis.call('HINCRBY', P, 'watched', watched and 1 or -1) end
end

local NOT_OF_THE_DOOR = {limit = true, timeout = true, owner = true, runbook = true}

-- Writes what holds of a lambda in its home partition, and owes it to the others: what an operator set (`set`) goes before what
-- the code says (`code`), "-" lifts that. `gates`: the text of its gates, for those that do not know the lambda yet; nil: they know them.
local function write_settings(P, name, spec64, code, set, gates, home, partitions, now)
  local holds_now, names, door = settings_of(code), {}, {}
  for each, value in pairs(settings_of(set)) do holds_now[each] = value end
  for each, value in pairs(holds_now) do
    if value ~= '-' and not NOT_OF_THE_DOOR[each] then names[#names + 1] = each end
  end
  table.sort(names)
  for i, each in ipairs(names) do door[i] = each .. '=' .. holds_now[each] end
  door = table.concat(door, ' ')
  local version = grown(P, 'lambda_version', now)
  put_settings(P, name, holds_now.limit, holds_now.timeout, door, version, now)
  if gates then redis.call('HSET', lambda_key(P, name), 'gv', version) end  -- as the others know it
  local strings = {'register', name, spec64, holds_now.limit, holds_now.timeout, door, gates}
  local body = version .. '\n["' .. table.concat(strings, '","') .. '"]'  -- nothing in them needs to be escaped
  for target = 0, partitions - 1 do
    if target ~= home then owe(P, target, body, now) end
  end
end

-- Forgets a lambda within one partition. Dead letters and records stay until their retention is over.
local function forget_lambda(P, name)
  if settings_of(redis.call('HGET', lambda_key(P, name), 'door') or nil).fatal ~= nil then redis.call('HINCRBY', P, 'watched', -1) end
  redis.call('SREM', P .. ':lambdas', name)
  redis.call('ZREM', P .. ':gates', name)
  redis.call('DEL', lambda_key(P, name), P .. ':g:' .. name, P .. ':e:' .. name, P .. ':p:' .. name, P .. ':h:' .. name, P .. ':spread:' .. name)
end

-- Pauses or resumes a lambda within one partition, and has what waits for it looked at.
local function set_paused(P, name, paused, now)
  local before = redis.call('HGET', lambda_key(P, name), 'paused')
  redis.call('HSET', lambda_key(P, name), 'paused', paused)
  visit_lambda(P, name, now)
  if before ~= '1' or paused == '1' then return end
  redis.call('DEL', P .. ':e:' .. name)  -- what has failed before it was resumed no longer counts
  for priority = 0, MAX_PRIORITY do redis.call('SPUBLISH', P .. ':bell:ready', name .. ':' .. priority) end
end
