-- In a store of several partitions each has a part of the permits: of `running`, and of `burst` with the rate in proportion. It asks
-- the limits ledger (limits_ledger.lua). `G` is what it ever got and `R` what it ever gave back: G - R is what it has. Both only grow,
-- and whoever hears of one takes the greater: so messages may be late, lost or doubled, and what all partitions have together is never
-- more than the ledger believes. A permit of the rate can be given back once its last use is a second ago.

permit_part.key = remembered(function(P, name) return P .. ':p:' .. name end)

-- What a partition knows of its part: per kind what it has (G, R), the most to keep (C) and what it last said it needs (N). Servers may
-- forget: `e` is the last such instant of this partition's (see store_clock.note_server) when it told the ledger, `ae` when the ledger answered, `le` is the ledger's
-- own. What was said before no longer holds, and until the ledger has answered nothing is used. `me` and `ms`: see permit_part.epoch_of.
local NUMBERS = {'nG', 'nR', 'nC', 'nN', 'bG', 'bR', 'bC', 'bN', 'at', 's', 'v', 'e', 'ae', 'le', 'z', 'me', 'ms'}

-- When a server last forgot something, as the ledger and the partitions tell each other: `pause_until` (see store_clock.note_server), except that it never goes
-- back. The server that takes over may have lost that very number, and its clock may be behind: what it says would count as old for good.
-- `last` is what it was when `pause_until` was `seen`; whoever hears that others know of a later one goes on behind that.
function permit_part.epoch_of(last, seen, pause_until)
  if not last or last < pause_until then return pause_until end
  return (seen or last) == pause_until and last or last + 1
end

function permit_part.read(P, name)
  local known = redis.call('HMGET', permit_part.key(P, name), 'w', 'y', 'log', unpack(NUMBERS))
  local part = {for_running = known[1] or '', for_rate = known[2] or '', log = known[3] or ''}
  for i, field in ipairs(NUMBERS) do part[field] = tonumber(known[i + 3] or nil) end
  return part
end

local function write_part(P, name, part, ...)
  local values = {}
  for _, field in ipairs({...}) do
    values[#values + 1] = field
    values[#values + 1] = part[field] and fmt(part[field]) or ''
  end
  redis.call('HSET', permit_part.key(P, name), unpack(values))
end

function permit_part.has(part, kind) return (part[kind .. 'G'] or 0) - (part[kind .. 'R'] or 0) end

function permit_part.may_use(part, kind, limit) return math.min(permit_part.has(part, kind), part[kind .. 'C'] or limit, limit) end

-- Tells the ledger what this partition needs and what it gives back, where the ledger does not know or others wait for it. After a while without
-- what it needs it says so again: what was said may have been lost.
function permit_part.report(P, room, now)
  local part, limits, changed = room.part, room.limits, room.part.e ~= room.epoch
  local waits = permits.waiting(P, room.name, part.for_running .. part.for_rate, {'NEW', 'RETRIABLE_FAILURE'}, now)
  local often = part.at and now >= part.at and now - part.at < PERMIT_REVISIT
  for _, kind in ipairs({'n', 'b'}) do
    if limits[kind] then
      local need = room.used[kind] + waits
      if kind == 'b' then
        need = need + permits.waiting(P, room.name, part.for_rate, {'ENQUEUED'}, now)  -- to be pushed again
        need = math.ceil(need * limits.b / limits.rate)
      end
      need = math.min(need, limits[kind])
      local cap, said = part[kind .. 'C'], part[kind .. 'N'] or 0
      local surplus = permit_part.has(part, kind) - math.max(room.used[kind], math.min(cap or limits[kind], cap and need or limits[kind]))
      if surplus > 0 and part.ae == room.epoch then
        part[kind .. 'R'] = (part[kind .. 'R'] or 0) + surplus
        changed = true
      end
      if need > permit_part.has(part, kind) and (need * 4 > said * 5 or not often) then changed = true end
      if cap and need * 2 < said then changed = true end
      room.need[kind] = need
    end
  end
  if not changed then return false end
  local before = permit_part.has(part, 'n') + permit_part.has(part, 'b')
  part.nN, part.bN = room.need.n or 0, room.need.b or 0
  part.e, part.at, part.s = room.epoch, now, (part.s or 0) + 1
  part.me, part.ms = room.epoch, room.pause_until
  write_part(P, room.name, part, 'nR', 'nN', 'bR', 'bN', 'e', 'at', 's', 'me', 'ms')
  limits_ledger.ask(P, room.name, room.partitions, room.used.n or -1, part, now)
  part = permit_part.read(P, room.name)  -- where the ledger lies here, it has answered already
  return permit_part.has(part, 'n') + permit_part.has(part, 'b') > before
end

-- Takes what the ledger says of this partition's part: permits got, permits that it knows were given back, and the most to keep while others
-- wait (below 0: all). An older message than the last one changes nothing; nor does what was said before this server forgot something.
function permit_part.sync(P, name, number, ledger_epoch, epoch, given, z, limits, now)
  local part = permit_part.read(P, name)
  local known, pause_until = part.le or -1, tonumber(redis.call('HGET', P, 'pause_until') or 0)
  local here = permit_part.epoch_of(part.me, part.ms, pause_until)
  if ledger_epoch < known or ledger_epoch == known and number <= (part.v or 0) then return false end
  if ledger_epoch ~= known then part.e = nil end  -- the ledger has forgotten what it heard
  part.le, part.v = ledger_epoch, number
  if epoch > here then part.me, part.ms, part.e = epoch + 1, pause_until, nil end  -- the ledger has heard of what this server has forgotten
  if epoch == here then
    part.ae = here
    for _, kind in ipairs({'n', 'b'}) do
      local before, cap = permit_part.has(part, kind), given[kind .. 'C']
      if (part[kind .. 'R'] or 0) > given[kind .. 'R'] then part.e = nil end  -- what was given back is not known there yet
      part[kind .. 'G'] = math.max(part[kind .. 'G'] or 0, given[kind .. 'G'])
      part[kind .. 'R'] = math.max(part[kind .. 'R'] or 0, given[kind .. 'R'])
      part[kind .. 'C'] = cap >= 0 and cap or nil
      local more = permit_part.has(part, kind) - before
      if kind == 'b' and more > 0 and limits and limits.b then
        local mine = math.max(part.z or 0, buckets.fullest(limits, before, now))
        part.z = before > 0 and math.floor((mine * before + z * more) / (before + more)) or z
      end
    end
  end
  write_part(P, name, part, 'nG', 'nR', 'nC', 'bG', 'bR', 'bC', 'v', 'e', 'ae', 'le', 'z', 'me', 'ms')
  for digit in string.gmatch(part.for_running .. part.for_rate, '%d') do due_index.visit_by(P, name .. ':' .. digit, now) end
  if not part.e or part.nC or part.bC then due_index.visit_by(P, name .. ':0', now) end  -- the ledger waits to be told, whatever waits here
  return true
end
