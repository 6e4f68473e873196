-- Shares: where tasks of several priorities of a lambda wait, what part of the places each of them has at least.
--
-- Places are dealt whenever tasks are taken and at each pass. A priority has credit for its share of them; whole places of its credit go first, all else
-- strictly by priority. What is left of the credit is kept for the next time (in the lambda's record, as "priority:credit"), so that
-- a small share has its place even where places are dealt one by one. A priority that got all it wanted has no credit: nothing is saved up.

local WHOLE = 10000  -- shares and credits are counted in parts of a place

local SMALL = 20     -- a priority without a share of its own has this fraction of what the others leave

local LEAST = 10     -- and so many parts where they leave less: none starves

-- The shares by priority, of those without one of their own for the queues that wait. Together they are no more than the whole: to deal
-- more than there is would be at the cost of the most urgent one.
local function shares_of(text, queues)
  local found, sum, others = {}, 0, {}
  for digit, share in string.gmatch(text or '', '(%d):([^,]+)') do
    found[digit] = math.max(math.floor(tonumber(share) * WHOLE + 0.001), 1)
    sum = sum + found[digit]
  end
  for _, each in ipairs(queues) do
    local digit = string.sub(each.queue, -1)
    if not found[digit] then others[#others + 1] = digit end
  end
  local small = math.max(math.floor((WHOLE - sum) / SMALL), LEAST)
  local room = WHOLE - small * #others
  if sum > room then
    for digit, share in pairs(found) do found[digit] = math.max(math.floor(share * room / sum), 1) end
  end
  for _, digit in ipairs(others) do found[digit] = small end
  return found
end

-- Keeps what is left of credits, where that has changed.
local function keep(P, name, field, before, over)
  local text = table.concat(over, ' ')
  if text ~= (before or '') then redis.call('HSET', lambda_key(P, name), field, text) end
end

-- Deals places among queues of a lambda: each says in `wants` how many it could use, and `gets` so many. `field` of the lambda's
-- record is where this keeps the credits. Puts the queues in order: most urgent first, but before them those that had a whole place to their credit.
function fair_shares.deal(P, name, queues, places, field)
  local text, before = fields_of(lambda_key(P, name), 'settings', field)
  local wanted, shares, credit, left, over = 0, shares_of(registry.settings_of(text).shares, queues), {}, places, {}
  table.sort(queues, function(a, b) return a.queue < b.queue end)  -- most urgent first
  for digit, parts in string.gmatch(before or '', '(%d):(%d+)') do credit[digit] = tonumber(parts) end
  for _, each in ipairs(queues) do wanted = wanted + each.wants end
  for _, each in ipairs(queues) do
    local digit = string.sub(each.queue, -1)
    each.carried, each.share = credit[digit] or 0, shares[digit]
    each.credit = each.carried + places * each.share
    each.gets = wanted <= places and each.wants or math.min(math.floor(each.credit / WHOLE), each.wants)
    left = left - each.gets
  end
  for _, each in ipairs(queues) do
    local more = math.max(math.min(left, each.wants - each.gets), -each.gets)  -- fewer, where the credits are for more than there is
    each.gets, left = each.gets + more, left - more
    local parts = each.gets < each.wants and each.credit - each.gets * WHOLE or 0
    if parts > 0 then over[#over + 1] = string.sub(each.queue, -1) .. ':' .. fmt(parts) end
  end
  keep(P, name, field, before, over)
  table.sort(queues, function(a, b)
    if (a.carried < WHOLE) ~= (b.carried < WHOLE) then return b.carried < WHOLE end
    return a.queue < b.queue
  end)
end

-- Fewer places were there than were dealt: `gets` says now what each queue had. So each has its credit of these only.
function fair_shares.correct(P, name, queues, field)
  local places, over = 0, {}
  for _, each in ipairs(queues) do places = places + each.gets end
  for _, each in ipairs(queues) do
    local parts = each.gets < each.wants and each.carried + places * each.share - each.gets * WHOLE or 0
    if parts > 0 then over[#over + 1] = string.sub(each.queue, -1) .. ':' .. fmt(parts) end
  end
  keep(P, name, field, nil, over)
end
