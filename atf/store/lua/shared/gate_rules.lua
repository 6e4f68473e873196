-- Gates: what operators, or a lambda's own failures, keep back of a lambda's tasks. Each partition has them as the field `gates`
-- of the lambda's record: "number action until amount label=value ...;...", what people wrote with its odd characters as %XX.

local ACTIONS = {pause = 1, drop = 2, admit = 3, delay = 4}  -- where several keep a task, the first one has it

local function unquoted(text)
  return (string.gsub(text, '%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end))
end

function gate_rules.parse(line)
  local number, action, ends, amount, labels = string.match(line, '^(%d+) (%l+) (%d+) (%S+) ?(.*)$')
  local gate = {number = tonumber(number), action = action, ends = tonumber(ends), amount = tonumber(amount), labels = {}}
  for name, value in string.gmatch(labels, '([^ =]+)=(%S*)') do
    gate.labels[#gate.labels + 1] = unquoted(name)
    gate.labels[#gate.labels + 1] = unquoted(value)
  end
  return gate
end

function gate_rules.whole_pause(line) return string.match(line, '^%d+ pause %d+ %S+ ?$') ~= nil end

-- The gates that look at single tasks, strongest first; `fields`: those of a task that they must know. Some texts are remembered: they
-- may be long.
local known_gates = {of = {}, count = 0}

function gate_rules.of(text)
  if known_gates.of[text] then return known_gates.of[text] end
  local found = {fields = {'s', 'lim', 'k', 'w', 'gd', 'h'}}
  for line in string.gmatch(text, '[^;]+') do
    if not gate_rules.whole_pause(line) then
      local gate = gate_rules.parse(line)
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
function gate_rules.keeper(gates, id, spec, delayed)
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

-- What a line is about: "action label=value ...". A lambda has one gate of each.
function gate_rules.about(line)
  local action, labels = string.match(line, '^%d+ (%l+) %d+ %S+ ?(.*)$')
  return labels == '' and action or action .. ' ' .. labels
end
