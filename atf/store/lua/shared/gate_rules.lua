-- Gates: what operators, or a lambda's own failures, keep back of a lambda's tasks. Each partition has them as the field `gates`
-- of the lambda's record: "number action until amount label=value ...;...". A task has its labels in its field `lb`, written alike.

local ACTIONS = {pause = 1, drop = 2, admit = 3, delay = 4}  -- where several keep a task, the first one has it

function gate_rules.parse(line)
  local number, action, ends, amount, labels = string.match(line, '^(%d+) (%l+) (%d+) (%S+) ?(.*)$')
  local gate = {number = tonumber(number), action = action, ends = tonumber(ends), amount = tonumber(amount), labels = {}}
  for label in string.gmatch(labels, '%S+') do gate.labels[#gate.labels + 1] = label end
  return gate
end

function gate_rules.whole_pause(line) return string.match(line, '^%d+ pause %d+ %S+ ?$') ~= nil end

-- The gates that look at single tasks, strongest first. Some texts are remembered: they may be long.
local known_gates = {of = {}, count = 0}

function gate_rules.of(text)
  if known_gates.of[text] then return known_gates.of[text] end
  local found = {}
  for line in string.gmatch(text, '[^;]+') do
    if not gate_rules.whole_pause(line) then found[#found + 1] = gate_rules.parse(line) end
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

-- Where an id stands between 0 and 1: evenly, and always in the same place, so that a gate that admits more admits the same and others.
local PRIME, STEP = 16777213, 10368889

local function place_of(id)
  local hash = 0
  for i = 1, #id do hash = (hash * 65599 + string.byte(id, i)) % 4294967296 end
  return hash % PRIME * STEP % PRIME / PRIME
end

local function meets(wanted, labels)
  for _, label in ipairs(wanted) do
    if not labels[label] then return false end
  end
  return true
end

-- The gate that keeps a task, or nil; and the newest gate that has delayed it then: it delays no task twice.
function gate_rules.keeper(gates, id, text, delayed)
  local labels, longest, newest = {}, nil, delayed
  for label in string.gmatch(text or '', '%S+') do labels[label] = true end
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
