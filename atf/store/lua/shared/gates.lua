-- Gates: what operators, or a lambda's own failures, keep back of a lambda's tasks. Each partition has them as the field `gates`
-- of the lambda's record: "number action until amount label=value ...;...", what people wrote with its odd characters as %XX.
--
-- A pause of the whole lambda is also the field `paused`, and its queues are not looked at while it stands. All other gates
-- look at each task once, when it would be pushed, or claimed where it was pushed before. What they keep is parked: it stays in
-- the set of its status, scored as never due, and in the set of what the gate keeps, until that is lifted, ends or lets it go.
-- Nobody looks at it meanwhile. The index `gates` says when a lambda's gates must be looked at, as the due index does of queues.

local ACTIONS = {pause = 1, drop = 2, admit = 3, delay = 4}  -- where several keep a task, the first one has it
local parked_key = remembered(function(P, name, number) return P .. ':g:' .. name .. ':' .. number end)
local tally_key = remembered(function(P, name) return P .. ':g:' .. name end)

local function unquoted(text)
  return (string.gsub(text, '%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end))
end

local function gate_of(line)
  local number, action, ends, amount, labels = string.match(line, '^(%d+) (%l+) (%d+) (%S+) ?(.*)$')
  local gate = {number = tonumber(number), action = action, ends = tonumber(ends), amount = tonumber(amount), labels = {}}
  for name, value in string.gmatch(labels, '([^ =]+)=(%S*)') do
    gate.labels[#gate.labels + 1] = unquoted(name)
    gate.labels[#gate.labels + 1] = unquoted(value)
  end
  return gate
end

local function whole_pause(line) return string.match(line, '^%d+ pause %d+ %S+ ?$') ~= nil end

-- The gates that look at single tasks, strongest first; `fields`: those of a task that they must know. Some texts are remembered: they
-- may be long.
local known_gates = {of = {}, count = 0}
local function gates_of(text)
  if known_gates.of[text] then return known_gates.of[text] end
  local found = {fields = {'s', 'lim', 'k', 'w', 'gd', 'h'}}
  for line in string.gmatch(text, '[^;]+') do
    if not whole_pause(line) then
      local gate = gate_of(line)
      found[#found + 1] = gate
      if #gate.labels > 0 then found.fields[7] = 'spec' end
    end
  end
  table.sort(found, function(one, other)
    local a, b = ACTIONS[one.action] or 0, ACTIONS[other.action] or 0
    if a ~= b then return a < b end
    return one.number < other.number
  end)
  if known_gates.count == 64 then known_gates = {of = {}, count = 0} end
  known_gates.of[text], known_gates.count = found, known_gates.count + 1
  return found
end

local keeper
do  -- Lua allows 200 locals in one function: what only keeper uses is gone after it

-- A number of at most 2^53, and where the next byte is; nil where the bytes end. A claim reads some ten thousand of them.
local function varint(bytes, at)
  local byte = string.byte(bytes, at)
  if not byte then return nil, at end
  if byte < 128 then return byte, at + 1 end
  local value, scale = byte - 128, 128
  while true do
    at = at + 1
    byte = string.byte(bytes, at)
    if not byte then return nil, at end
    value = value + byte % 128 * scale
    if byte < 128 then return value, at + 1 end
    scale = scale * 128
  end
end

-- The next field of a serialized message that holds bytes, from `at` up to `stop`: its number, its first byte and its last one. Nil
-- where there is none, or the bytes make no sense.
local function next_field(bytes, at, stop)
  while at <= stop do
    local tag, size, _
    tag, at = varint(bytes, at)
    if not tag then return nil end
    local wire = tag % 8
    if wire == 2 then
      size, at = varint(bytes, at)
      if not size then return nil end
      return (tag - 2) / 8, at, at + size - 1
    elseif wire == 0 then
      _, at = varint(bytes, at)
    elseif wire == 1 then
      at = at + 8
    elseif wire == 5 then
      at = at + 4
    else
      return nil
    end
  end
end

local LABELS = 5  -- the field of a TaskSpec

local function labels_of(spec)
  local found, last = {}, 0
  local number, first
  while true do
    number, first, last = next_field(spec, last + 1, #spec)
    if not number then return found end
    if number == LABELS then
      local name, value, stop = '', '', math.min(last, #spec)
      local part, start, finish = next_field(spec, first, stop)
      while part do
        if part == 1 then
          name = string.sub(spec, start, math.min(finish, stop))
        elseif part == 2 then
          value = string.sub(spec, start, math.min(finish, stop))
        end
        part, start, finish = next_field(spec, finish + 1, stop)
      end
      found[name] = value
    end
  end
end

-- Where an id stands between 0 and 1: evenly, and always in the same place, so that a gate that admits more admits the same and others.
local PRIME, STEP = 16777213, 10368889
local function place_of(id)
  local hash = 0
  for i = 1, #id do hash = (hash * 65599 + string.byte(id, i)) % 4294967296 end
  return hash % PRIME * STEP % PRIME / PRIME
end

local function meets(wanted, labels)
  for i = 1, #wanted, 2 do
    if labels[wanted[i]] ~= wanted[i + 1] then return false end
  end
  return true
end

-- The gate that keeps a task, or nil; and the newest gate that has delayed it then: it delays no task twice.
keeper = function(gates, id, spec, delayed)
  local labels = gates.fields[7] and labels_of(spec or '') or nil
  local longest, newest = nil, delayed
  for _, gate in ipairs(gates) do
    if meets(gate.labels, labels) then
      if gate.action == 'delay' then
        if gate.number > delayed then
          if not longest or gate.amount > longest.amount then longest = gate end
          newest = math.max(newest, gate.number)
        end
      elseif gate.action ~= 'admit' or place_of(id) >= gate.amount then
        return gate, delayed
      end
    end
  end
  return longest, newest
end

end

-- Has a lambda's gates looked at at `at` or before.
local function look_at_gates_by(P, name, at)
  local first = redis.call('ZRANGE', P .. ':gates', 0, 0, 'WITHSCORES')
  redis.call('ZADD', P .. ':gates', 'LT', fmt(at), name)
  if not first[2] or at < tonumber(first[2]) then redis.call('SPUBLISH', P .. ':bell:due', '') end
end

-- How many runs of a lambda have ended here within about a minute, and how many of those failed for good; nil where nobody asks.
local ends_key = remembered(function(P, name) return P .. ':e:' .. name end)
local function ends_within(P, name, now)
  local settings = settings_of(redis.call('HGET', lambda_key(P, name), 'door'))
  if not settings.fatal then return nil end
  local newest, ended, fatal = math.floor(now / ENDS.STEP), 0, 0
  local counts = redis.call('HGETALL', ends_key(P, name))
  for i = 1, #counts, 2 do
    local step, kind = string.match(counts[i], '^(%d+)(f?)$')
    step = tonumber(step)
    if step <= newest - ENDS.STEPS or step > newest then
      redis.call('HDEL', ends_key(P, name), counts[i])
    elseif kind == 'f' then
      fatal = fatal + tonumber(counts[i + 1])
    else
      ended = ended + tonumber(counts[i + 1])
    end
  end
  return ended, fatal, tonumber(settings.fatal)
end

-- Cancels a task that has not started, or flags one that runs. Returns {status after it ("" = no such task), 1 cancelled now or before, 1 flagged}.
local function cancel_task(P, sets, id, now)
  local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'lim', 'k', 'w', 'h', 'g', 'mf')
  local status = task[1]
  if not status or status == 'TOMBSTONE' then return {'', 0, 0} end
  if FINISHED[status] then return {status, status == 'CANCELLED' and 1 or 0, 0} end
  if status == 'CLAIMED' or status == 'PROCESSING' then  -- mutant: cancel_without_state_check
    redis.call('HSET', task_key(P, id), 'x', '1')
    return {status, 0, 1}
  end
  if task[8] and status == 'ENQUEUED' then misfits.leave(P, id, task[2], misfits.read(task[8])) end
  if task[7] then  -- a gate has parked it
    redis.call('ZREM', parked_key(P, lambda_of(task[2]), task[7]), id)
    redis.call('HDEL', task_key(P, id), 'g')
  end
  rest(P, sets, id, task[2], status, 'CANCELLED', now, task[3], task[4], task[5], false, task[6])
  return {'CANCELLED', 1, 0}
end

-- Whether so many failed here that the lambda's automatic gate may have to close: where it has to over all partitions together, it
-- has to by what is known in at least one.
local function failing(P, name, now)
  local ended, fatal, share = ends_within(P, name, now)
  return ended and fatal > 0 and fatal >= share * ended and redis.call('HGET', lambda_key(P, name), 'paused') ~= '1'
end

count_ends = function(P, name, ended, fatal, now)
  if tonumber(redis.call('HGET', P, 'watched') or 0) <= 0 then return end
  if not settings_of(redis.call('HGET', lambda_key(P, name), 'door')).fatal then return end
  local step = fmt(math.floor(now / ENDS.STEP))
  redis.call('HINCRBY', ends_key(P, name), step, ended)
  if fatal == 0 then return end
  redis.call('HINCRBY', ends_key(P, name), step .. 'f', fatal)
  if failing(P, name, now) then look_at_gates_by(P, name, now) end
end

-- Keeps a task of a batch back: NEW, RETRIABLE_FAILURE -> the same, parked; ENQUEUED -> NEW, parked; or all of them -> CANCELLED.
-- `task`: the gates' fields of it. `kept` counts, for tell_kept.
local function keep(P, sets, kept, id, queue, from, gate, newest, now, task)
  local name = lambda_of(queue)
  kept.count = kept.count + 1
  if gate.action == 'drop' then
    rest(P, sets, id, queue, from, 'CANCELLED', now, task[2], task[3], task[4], false, task[6], 'err', 'dropped by gate ' .. fmt(gate.number) .. ' of ' .. name)
    kept.dropped[gate.number] = (kept.dropped[gate.number] or 0) + 1
    return
  end
  local to, at = from, gate.action == 'delay' and now + gate.amount or now
  if from == 'ENQUEUED' then
    to = 'NEW'  -- it passes its queue's door anew
    sets.ZREM(live_key(P, queue, from), id)  -- mutant: gate_leaves_a_place_behind
    redis.call('HDEL', task_key(P, id), 'e')
    redis.call('HSET', task_key(P, id), 's', to, MOVED[to], fmt(now), 'g', fmt(gate.number), 'gd', fmt(newest))
  else
    redis.call('HSET', task_key(P, id), 'g', fmt(gate.number), 'gd', fmt(newest))
  end
  if task[6] then let_go(P, id, queue, task[6], now) end
  sets.ZADD(live_key(P, queue, to), '+inf', id)
  sets.ZADD(parked_key(P, name, fmt(gate.number)), fmt(at), id)
  if gate.action == 'delay' and (not kept.until_ or at < kept.until_) then kept.until_ = at end
end

local function kept_none() return {count = 0, dropped = {}} end

local function tell_kept(P, name, kept)
  for number, count in pairs(kept.dropped) do
    redis.call('HINCRBY', tally_key(P, name), fmt(number), count)
    redis.call('HINCRBY', tally_key(P, name), 'dropped', count)
  end
  if kept.until_ then look_at_gates_by(P, name, kept.until_) end
end

-- The first stage of the door: ids of due tasks that no gate keeps, and how many were kept. Where specs are large, not all are looked
-- at: the others are left as they are.
local function past_gates(P, queue, status, ids, now, text)
  local gates, through, kept, bytes = gates_of(text), {}, kept_none(), 0
  if #gates == 0 then return ids, 0 end
  gathering(#ids, function(sets)
    for _, id in ipairs(ids) do
      if bytes > GATE_BYTES then break end
      local task = redis.call('HMGET', task_key(P, id), unpack(gates.fields))
      bytes = bytes + #(task[7] or '')
      local gate, newest
      if task[1] then gate, newest = keeper(gates, id, task[7], tonumber(task[5] or 0)) end
      if gate then
        keep(P, sets, kept, id, queue, status, gate, newest, now, task)
      else
        through[#through + 1] = id
      end
    end
  end)
  tell_kept(P, lambda_of(queue), kept)
  return through, kept.count
end

-- Writes a lambda's gates within one partition; their numbers are those of the text. No `version`: some of them have ended, which is a
-- change all the same.
local function put_gates(P, name, text, version, now)
  local key, paused, single = lambda_key(P, name), '0', false
  local known = redis.call('HMGET', key, 'gates', 'paused')
  for line in string.gmatch(text, '[^;]+') do
    if whole_pause(line) then paused = '1' else single = true end
    redis.call('HINCRBY', tally_key(P, name), string.match(line, '^%d+'), 0)
  end
  local single_before = known[1] and #gates_of(known[1]) > 0 or false
  if single ~= single_before then redis.call('HINCRBY', P, 'gated', single and 1 or -1) end
  if text ~= '' then redis.call('HSET', key, 'gates', text) elseif known[1] then redis.call('HDEL', key, 'gates') end
  if version then redis.call('HSET', key, 'gv', version) else grown(P, 'lambda_version', now) end
  if version or paused ~= known[2] then set_paused(P, name, paused, now) end
  look_at_gates_by(P, name, now)
end

-- Writes a lambda's gates in its home partition, and owes them to the others. `same`: somebody sets or lifts what is so already; that is passed on, since one of the others may have
-- heard of what home has forgotten, but not where much is owed already: one of them may be away for long.
local function write_gates(P, name, text, home, partitions, now, same)
  if same and redis.call('ZCARD', P .. ':outbox:due') >= 64 then return end
  local version = grown(P, 'lambda_version', now)
  put_gates(P, name, text, version, now)
  local body = version .. '\n["gate","' .. name .. '","' .. text .. '"]'  -- nothing in it needs to be escaped
  for target = 0, partitions - 1 do
    if target ~= home then owe(P, target, body, now) end
  end
end

-- The lines of a lambda's gates, without those that have ended, though no visit has struck them off yet.
local function gate_lines(P, name, now)
  local lines = {}
  for line in string.gmatch(redis.call('HGET', lambda_key(P, name), 'gates') or '', '[^;]+') do
    local ends = gate_of(line).ends
    if ends == 0 or ends > now then lines[#lines + 1] = line end
  end
  return lines
end

-- What a line is about: "action label=value ...". A lambda has one gate of each.
local function about(line)
  local action, labels = string.match(line, '^%d+ (%l+) %d+ %S+ ?(.*)$')
  return labels == '' and action or action .. ' ' .. labels
end

-- Adds to the audit log, which keeps the newest.
local function log_entry(P, now, entry)
  local log = P .. ':audit'
  local number = redis.call('HINCRBY', P, 'audited', 1)
  redis.call('ZADD', log, number, fmt(number) .. ' ' .. fmt(now) .. '\n' .. entry)
  local old = redis.call('ZRANGE', log, '-inf', number - AUDIT_KEPT, 'BYSCORE', 'LIMIT', 0, 16)
  if #old > 0 then redis.call('ZREM', log, unpack(old)) end
end

-- Has parked tasks pass on: those that a gate kept which is there no more, or whose delay is over.
local function let_through(P, name, number, ids, now)
  if #ids == 0 then return end
  local queues = {}
  gathering(#ids, function(sets)
    for _, id in ipairs(ids) do
      sets.ZREM(parked_key(P, name, number), id)
      local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'g', 'at', 'hd')
      local kept = task[3] == number and (task[1] == 'NEW' or task[1] == 'RETRIABLE_FAILURE')  -- mutant: gate_keeps_for_ever
      if kept then redis.call('HDEL', task_key(P, id), 'g') end
      if kept and not task[5] then  -- else its job is paused, and keeps it
        sets.ZADD(live_key(P, task[2], task[1]), fmt(math.min(tonumber(task[4]), now)), id)  -- those that waited longest come first
        queues[task[2]] = true
      end
    end
  end)
  for queue in pairs(queues) do visit_by(P, queue, now) end
end

-- Looks at a lambda's gates: strikes off those that have ended, and lets pass what none keeps any more, `most` tasks at once.
-- Returns how many it dealt with, and whether so many runs failed that all partitions together must be asked.
local function look_at_gates(P, name, now, most)
  local text, kept, next_at = redis.call('HGET', lambda_key(P, name), 'gates') or '', {}, nil
  local standing = {}
  for line in string.gmatch(text, '[^;]+') do
    local gate = gate_of(line)
    if gate.ends == 0 or gate.ends > now then
      kept[#kept + 1] = line
      standing[fmt(gate.number)] = gate
      if gate.ends > 0 and (not next_at or gate.ends < next_at) then next_at = gate.ends end
    end
  end
  local left = table.concat(kept, ';')
  if left ~= text then put_gates(P, name, left, nil, now) end
  local dealt, tallies = 0, redis.call('HGETALL', tally_key(P, name))
  for i = 1, #tallies, 2 do
    local number = tallies[i]
    local gate, parked = standing[number], parked_key(P, name, number)
    if string.match(number, '^%d+$') and dealt < most then
      local ids = {}
      if not gate then
        ids = redis.call('ZRANGE', parked, 0, fmt(most - dealt - 1))
        if #ids < most - dealt then redis.call('HDEL', tally_key(P, name), number, 'r' .. number) end
      elseif gate.action == 'delay' then
        ids = redis.call('ZRANGE', parked, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(most - dealt))
      end
      let_through(P, name, number, ids, now)
      dealt = dealt + #ids
      if gate and gate.action == 'delay' then
        local first = redis.call('ZRANGE', parked, 0, 0, 'WITHSCORES')
        if first[2] and (not next_at or tonumber(first[2]) < next_at) then next_at = tonumber(first[2]) end
      end
    end
  end
  if dealt >= most then next_at = now end
  local ask = tonumber(redis.call('HGET', P, 'watched') or 0) > 0 and failing(P, name, now)
  if ask then next_at = math.min(next_at or math.huge, now + JUDGE_AGAIN) end
  if next_at then
    redis.call('ZADD', P .. ':gates', fmt(math.max(next_at, now)), name)
  else
    redis.call('ZREM', P .. ':gates', name)
  end
  return dealt, ask
end
