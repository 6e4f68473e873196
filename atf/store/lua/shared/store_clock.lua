-- What the server's clock, TIME, can be believed, and whether claims are given. All of it stands in the partition's record:
--
--   clock          how far TIME was noted to have come
--   stepped        the last step back of TIME, named by what `clock` was then
--   stepped_over   the last step that some store consumer has seen a heartbeat timeout go by since
--   stepped_start  the step that a store consumer which had just started met, and when
--   pause_until    when the last pause of claims ends at the soonest; also its name, which strictly increases
--   pause_over     `pause_until` of the last pause that has ended
--
-- Leases end by TIME only as far as a store consumer believes it:
--
--                     TIME is behind `clock` (or behind what a store consumer believes)
--   leases end  ─────────────────────────────────────────────────────────────────────────▶  no lease ends (`stepped` is new)
--        ▲                                                                                                │
--        └── a store consumer has seen a heartbeat timeout go by since then (`stepped_over` = `stepped`) ◀┘
--
-- Claims are given unless the server may have forgotten some:
--
--                     another server process that forgets, or an import (store_clock.pause_claims)
--   claims given  ──────────────────────────────────────────────────────────────────────▶  paused (`pause_over` ≠ `pause_until`)
--   (`pause_over` = `pause_until`) ◀── a pass has seen `pause_until` go by, on the clock it believes ─────┤
--                     ◀── all on the roster have answered: nothing was forgotten ───────────┘

local known = {}  -- one for all calls: to make it costs as much as half a command

-- What a pass of a store consumer needs of it.
function store_clock.read(P)
  known.pause_until, known.clock, known.stepped, known.pause_over, known.forgot = fields_of(P, 'pause_until', 'clock', 'stepped', 'pause_over', 'forgot')
  return known
end

-- Notes how far TIME has come, where that is `least` further than it was noted to be (`clock`). Where TIME has gone back, leases end early
-- that are given before it is set forward again, and a store consumer that had no answer in between can't tell. So no store consumer ends
-- any until it has seen a heartbeat timeout go by since it was told (see enqueue.lua). Returns what that step back is known by, or nil.
function store_clock.note(P, now, clock, least)
  local behind = tonumber(clock or 0) - now
  if behind > store_clock.STEP then  -- mutant: step_back_unnoticed
    redis.call('HSET', P, 'clock', fmt(now), 'stepped', clock)
    return clock
  elseif behind <= -least then
    redis.call('HSET', P, 'clock', fmt(now))
  end
end

-- How long no claims are given at least, or nil: a pause of claims is over once `pause_over` is `pause_until`. That is so when a pass of a store
-- consumer has seen `pause_until` go by on the clock that it believes, since this server's clock may leap ahead while executors whose claims
-- were forgotten live on; or as soon as it is known that nothing was forgotten.
function store_clock.pause_left(pause_until, pause_over, now)
  if not pause_until or tonumber(pause_over or nil) == pause_until then return nil end
  return now < pause_until and pause_until - now or store_clock.REVISIT
end

-- No claims are given from now on, for so long. `cause` is for people: "restart", "emptied" or "import". Returns the pause's end: another
-- one each time, since it is an epoch, too.
function store_clock.pause_claims(P, pause_until, now, time, cause)
  pause_until = math.max((pause_until or 0) + 1, now + time)
  redis.call('HSET', P, 'pause_until', fmt(pause_until), 'cause', cause)
  return pause_until
end

-- Notes which server process this is. One that restarted or took over may have forgotten claims that their executors still
-- hold: for one heartbeat timeout, so that those executors have ended by then, it gives none. Only where neither this process
-- nor the one before forgets anything is there no such pause; where both have at least a prefix, the roster may end it. While roles change to
-- a longer timeout, which is on record then, the longer one counts. Returns how long claims are refused, or nil; whether any lambda here has
-- gates that look at single tasks; how far TIME was noted to have come; the field `also` of the partition's record; and the last step back of TIME.
function store_clock.note_server(P, server, memory, now, timeout, also)
  local before, pause_until, durable, gated, clock, pause_over, more, stepped =
    fields_of(P, 'server', 'pause_until', 'durable', 'gated', 'clock', 'pause_over', also or 'clock', 'stepped')
  pause_until = tonumber(pause_until or nil)
  local pause = store_clock.pause_left(pause_until, pause_over, now)
  if server ~= '' and before ~= server then
    redis.call('HSET', P, 'server', server, 'durable', memory)
    if before and (memory ~= '1' or durable ~= '1') then
      local known, old = redis.call('HGET', P, 'timeout'), pause_until
      pause_until = store_clock.pause_claims(P, pause_until, now, math.max(timeout, tonumber(known or 0)), 'restart')
      redis.call('HSET', P, 'forgot', '1')
      local over = roster.ask(P, roster.MEMORY[memory] and roster.MEMORY[durable], pause, old, pause_until)
      pause = not over and pause_until - now or nil
    end
  elseif server ~= '' and (roster.MEMORY[memory] or 0) < (roster.MEMORY[durable] or 0) then
    redis.call('HSET', P, 'durable', memory)  -- its settings were changed: what it forgets from now on, it forgets
  end
  return pause, tonumber(gated or 0) > 0, clock, more, stepped  -- mutant: no_pause_after_rollback
end

-- The last step back of TIME (see store_clock.note), and whether this store consumer may end leases: it has seen a heartbeat timeout go by
-- since the one that is `seen`. One that has just started may where another one has, or one that had just started long enough ago: both
-- believe TIME by the clocks of their hosts, and some live too shortly to see that.
function store_clock.step_back(P, now, believed, seen, timeout, known)
  local stepped, over, started = known.stepped or '0', '0', ''
  if known.stepped then
    local stepped_over, stepped_start = fields_of(P, 'stepped_over', 'stepped_start')
    over, started = stepped_over or '0', stepped_start or ''
  end
  local starts = seen == ''
  local may = stepped == seen or starts and stepped == over
  -- where it may not, it has been told, or will be, of the step for which TIME is behind what it believes
  local further = may and believed > now + store_clock.APART and fmt(believed)
  local step = store_clock.note(P, now, further or known.clock, math.huge)
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

-- Notes whether a pause of claims has gone by on the clock that this pass believes (see store_clock.pause_left). Returns how long that is to come yet,
-- or nil.
--
-- What this partition was told of lambdas may be forgotten where claims may be; or it has heard what the registry partition has forgotten since. So
-- the registry partition says it all again (resync_lambdas.lua).
function store_clock.note_pass(P, now, lease_now, known)
  if now - tonumber(known.clock or 0) > store_clock.IDLE then redis.call('HSET', P, 'clock', fmt(now)) end
  local pause_until = tonumber(known.pause_until or 0)
  if known.forgot then
    redis.call('HDEL', P, 'forgot')
    if redis.call('HGET', P, 'partitions') ~= '1' then outbox.add(P, 0, '0' .. outbox.words('resync', ''), now) end
  end
  if tonumber(known.pause_over or 0) == pause_until then return nil end
  if lease_now < pause_until then return math.min(pause_until - lease_now, store_clock.REVISIT) end
  redis.call('HSET', P, 'pause_over', fmt(pause_until))
  redis.call('DEL', roster.key(P, 'asked'))  -- whoever has not answered holds nothing any more that was forgotten
end
