-- The limits ledger: it gives out a lambda's permits, where a store has several partitions, and lies in one of them. It remembers what each partition got and gave
-- back, so that a message may come twice, late or never, and gives out no more than the limit. Where more is asked for than there is,
-- those that ask share it evenly: whoever has more is told the most to keep. Where that is less than one for each, who has waited
-- longest comes first, and keeps it for a while (`T`: until when).
--
-- Nothing is given before every partition has said what it has and what runs there: a limit may be new, and this server may have
-- forgotten something.

local ENTRY = {'s', 'e', 'le', 'nG', 'nR', 'nN', 'nC', 'bG', 'bR', 'bN', 'bC', 'granted', 'sent', 'nT', 'bT'}

local ledger_key = remembered(function(P, name) return P .. ':h:' .. name end)

local function partition_of(name, partitions)
  local hash = 0
  for i = 1, #name do hash = (hash * 31 + string.byte(name, i)) % 1000003 end
  return hash % partitions
end

local function new_entry() return {s = 0, e = -1, le = -1, nG = 0, nR = 0, nN = 0, nC = -1, bG = 0, bR = 0, bN = 0, bC = -1, granted = 0, sent = 0, nT = 0, bT = 0} end

-- What the ledger knows of a lambda, and how many partitions there are. `known`: of which epoch of it (see permit_part.epoch_of) somebody else knows.
local function read_ledger(P, name, known)
  local partitions, pause_until = fields_of(P, 'partitions', 'pause_until')
  partitions, pause_until = tonumber(partitions), tonumber(pause_until or 0)
  local ledger, all = {parts = {}, P = P, name = name}, redis.call('HGETALL', ledger_key(P, name))
  for i = 1, #all, 2 do
    local number = tonumber(all[i])
    if number then
      local entry, place = {}, 0
      for value in string.gmatch(all[i + 1], '%-?%d+') do
        place = place + 1
        entry[ENTRY[place]] = tonumber(value)
      end
      ledger.parts[number] = entry
    else
      ledger[all[i]] = tonumber(all[i + 1])
    end
  end
  for number = 0, partitions - 1 do ledger.parts[number] = ledger.parts[number] or new_entry() end
  ledger.v, ledger.grants, ledger.counts = ledger.v or 0, ledger.grants or 0, ledger.counts or 0
  ledger.e, ledger.seen = permit_part.epoch_of(ledger.e, ledger.seen, pause_until), pause_until
  if known > ledger.e then ledger.e = known + 1 end
  return ledger, partitions
end

local function write_ledger(P, name, ledger)
  local values = {'v', fmt(ledger.v), 'grants', fmt(ledger.grants), 'e', fmt(ledger.e), 'seen', fmt(ledger.seen), 'z', fmt(ledger.z or 0), 'counts', fmt(ledger.counts)}
  for number, entry in pairs(ledger.parts) do
    local texts_of = {}
    for i, field in ipairs(ENTRY) do texts_of[i] = fmt(entry[field]) end
    values[#values + 1] = fmt(number)
    values[#values + 1] = table.concat(texts_of, ' ')
  end
  redis.call('HSET', ledger_key(P, name), unpack(values))
end

-- Tells a partition what its part is. `P` is the ledger's own record.
local function sync_part(P, ledger, number, limits, here, now)
  local entry = ledger.parts[number]
  ledger.v = ledger.v + 1
  entry.sent = now
  if number == here then
    permit_part.sync(P, ledger.name, ledger.v, ledger.e, entry.e, entry, ledger.z or 0, limits, now)
    return
  end
  local words = outbox.words('grant_permits', ledger.name, ledger.v, ledger.e, entry.e, entry.nG, entry.nR, entry.nC, entry.bG, entry.bR, entry.bC,
    ledger.z or 0)
  outbox.add(P, number, '0' .. words, now)
end

local function by_place(one, other) return one.number < other.number end

-- How many permits of a kind each partition should have: what it needs, or an even share.
local function targets_of(ledger, kind, limit, now)
  local askers, left = {}, limit
  for number, entry in pairs(ledger.parts) do
    entry.number, entry.target = number, 0
    if entry[kind .. 'N'] > 0 then askers[#askers + 1] = entry end
  end
  table.sort(askers, function(one, other)
    if one[kind .. 'N'] ~= other[kind .. 'N'] then return one[kind .. 'N'] < other[kind .. 'N'] end
    return by_place(one, other)
  end)
  local share  -- of each that needs more than that
  for i, entry in ipairs(askers) do
    share = share or math.floor(left / (#askers - i + 1)) < entry[kind .. 'N'] and math.floor(left / (#askers - i + 1))
    entry.target = share or entry[kind .. 'N']
    left = left - entry.target
  end
  local scarce = limit < #askers
  table.sort(askers, function(one, other)  -- what is left over: to those that waited longest, or that have it already
    local keeps, other_keeps = now < one[kind .. 'T'], now < other[kind .. 'T']
    if scarce and keeps ~= other_keeps then return keeps end
    if scarce and one.granted ~= other.granted then return one.granted < other.granted end
    local mine, its = permit_part.has(one, kind), permit_part.has(other, kind)
    if not scarce and mine ~= its then return mine > its end
    return by_place(one, other)
  end)
  for _, entry in ipairs(askers) do
    if left > 0 and entry.target < entry[kind .. 'N'] then entry.target, left = entry.target + 1, left - 1 end
  end
  return askers
end

-- Gives out what is free of a kind, and has those give back that have too much while others wait. Returns the partitions to be told.
local function share_out(ledger, kind, limit, limits, changed, now)
  local askers, out = targets_of(ledger, kind, limit, now), 0
  for _, entry in pairs(ledger.parts) do out = out + permit_part.has(entry, kind) end
  local free = limit - out  -- mutant: permits_given_twice
  local short = out > limit
  if kind == 'b' then ledger.z = math.min(math.max(ledger.z or 0, buckets.fullest(limits, free, now)), now) end
  for _, entry in ipairs(askers) do
    local lacks = entry.target - permit_part.has(entry, kind)
    local gets = math.min(lacks, free)
    if gets > 0 then
      entry[kind .. 'G'], free = entry[kind .. 'G'] + gets, free - gets
      ledger.grants = ledger.grants + 1
      entry.granted, changed[entry.number] = ledger.grants, true
      entry[kind .. 'T'] = now + PERMIT_KEPT + (kind == 'b' and math.ceil(buckets.SECOND * limits.b / limits.rate) or 0)
    end
    short = short or entry[kind .. 'N'] > permit_part.has(entry, kind)
  end
  for number, entry in pairs(ledger.parts) do
    local has = permit_part.has(entry, kind)
    local cap = short and has > 0 and entry.target or -1  -- also who has no more than that gives back what it does not need
    if cap ~= entry[kind .. 'C'] or cap >= 0 and has > cap and now - entry.sent >= PERMIT_REVISIT then
      entry[kind .. 'C'], changed[number] = cap, true
    end
  end
end

-- Gives out what may be given. `asker` is told in any case (-1: nobody).
local function give_out(P, ledger, limits, partitions, asker, now)
  local here, changed, all_said = tonumber(number_of(P)), {}, true
  local counts = limits and limits.n and 1 or 0
  if counts > ledger.counts and ledger.v > 0 then  -- what runs was of no account so far: all have to say it
    ledger.e = ledger.e + 1
    for number in pairs(ledger.parts) do changed[number] = true end
  end
  ledger.counts = counts
  if asker >= 0 then changed[asker] = true end
  for number, entry in pairs(ledger.parts) do
    if entry.le ~= ledger.e then
      all_said = false
      if now - entry.sent >= PERMIT_REVISIT or now < entry.sent then changed[number] = true end
    end
  end
  if all_said then
    for _, kind in ipairs({'n', 'b'}) do
      if limits and limits[kind] then share_out(ledger, kind, limits[kind], limits, changed, now) end
    end
  end
  for number = 0, partitions - 1 do
    if changed[number] then sync_part(P, ledger, number, limits, here, now) end
  end
  write_ledger(P, ledger.name, ledger)
end

-- What a partition said: its number, the number of its message, when it and (as it knows) the ledger last forgot something, per kind permits
-- got, given back and needed, tasks that run there (-1: it knows of no max_running yet), and when its bucket was empty.
function limits_ledger.report(P, name, from, number, epoch, ledger_epoch, said, runs, z, now)
  local limits = permits.limits_of(registry.settings(P, name))
  local ledger, partitions = read_ledger(P, name, ledger_epoch)
  local entry = ledger.parts[from]
  if epoch < entry.e then  -- an old message; or its server has forgotten that it said something later
    sync_part(P, ledger, from, limits, tonumber(number_of(P)), now)
    write_ledger(P, name, ledger)
    return
  end
  if epoch == entry.e and number <= entry.s then return end
  entry.e, entry.s = epoch, number
  for _, kind in ipairs({'n', 'b'}) do
    local back = said[kind .. 'R'] - entry[kind .. 'R']
    if kind == 'b' and back > 0 and limits and limits.b then
      local free = limits.b
      for _, each in pairs(ledger.parts) do free = free - permit_part.has(each, 'b') end
      free = math.max(free, 0)
      local mine = math.max(ledger.z or 0, buckets.fullest(limits, free, now))
      ledger.z = math.min(math.floor((mine * free + z * back) / (free + back)), now)
    end
    entry[kind .. 'G'] = math.max(entry[kind .. 'G'], said[kind .. 'G'])
    entry[kind .. 'R'] = math.max(entry[kind .. 'R'], said[kind .. 'R'])
    entry[kind .. 'N'] = said[kind .. 'N']
  end
  entry.nG = math.max(entry.nG, entry.nR + runs)  -- what runs there has its permit, however it came to run
  if ledger_epoch == ledger.e and (runs >= 0 or not (limits and limits.n)) then entry.le = ledger.e end
  give_out(P, ledger, limits, partitions, from, now)
end

function limits_ledger.ask(P, name, partitions, runs, part, now)
  local here, target = tonumber(number_of(P)), partition_of(name, partitions)
  local said = {}
  for _, field in ipairs({'nG', 'nR', 'nN', 'bG', 'bR', 'bN'}) do said[field] = part[field] or 0 end
  if target == here then
    limits_ledger.report(P, name, here, part.s, part.e, part.le or -1, said, runs, part.z or now, now)
    return
  end
  local words = outbox.words('ask_permits', name, here, part.s, part.e, part.le or -1, said.nG, said.nR, said.nN, said.bG, said.bR, said.bN, runs,
    part.z or now)
  outbox.add(P, target, '0' .. words, now)
end

-- A lambda's settings have changed: the ledger is to hear again what runs here, and where the ledger lies here, what is given out changes, too.
function limits_ledger.settings_changed(P, name, now)
  if redis.call('EXISTS', permit_part.key(P, name)) == 1 then redis.call('HSET', permit_part.key(P, name), 'e', '') end
  if redis.call('EXISTS', ledger_key(P, name)) == 0 then return end
  local ledger, partitions = read_ledger(P, name, -1)
  give_out(P, ledger, permits.limits_of(registry.settings(P, name)), partitions, -1, now)
end
