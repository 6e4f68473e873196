-- copies: makes copies of a task in the store, each as if it had gone the same way at another instant
-- KEYS[1]  the partition's record
-- ARGV     the task, number of the first copy, how many, µs by which the first one is later, and each of the others than the one before it,
--          then the sorted sets that the task stands in
local P, task, first, count, by, step = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local INSTANTS = {at = true, t1 = true, t2 = true, t3 = true, t4 = true, t5 = true, t6 = true, t7 = true, t8 = true}

local function later(text, shift) return string.format('%d', tonumber(text) + shift) end

-- The field R has a line for each run that has ended; the second word of a line is when.
local function runs_later(text, shift)
  return (string.gsub(text, '([^\t\n]*\t)(%d+)(\t[^\n]*\n)', function(owner, ended, rest) return owner .. later(ended, shift) .. rest end))
end

-- The counter of a claim is an instant, too.
local function claim_later(text, shift)
  return (string.gsub(text, '^%d+', function(counter) return later(counter, shift) end))
end

local SHIFTED = {R = runs_later, c = claim_later}  -- the others: later

local partition = string.match(task, '^%d+%-')
local record, moved, apart = redis.call('HGETALL', P .. ':t:' .. task), {}, {}
for i = 1, #record, 2 do
  local field = record[i]
  if INSTANTS[field] or SHIFTED[field] and record[i + 1] ~= '\0' then moved[#moved + 1] = {i + 1, record[i + 1], SHIFTED[field] or later} end
  if record[i + 1] == '\0' then
    apart[#apart + 1] = {':' .. field, redis.call('GET', P .. ':v:' .. task .. ':' .. field), field == 'R' and runs_later or nil}
  end
end
local sets = {}
for i = 6, #ARGV do sets[#sets + 1] = {key = ARGV[i], score = tonumber(redis.call('ZSCORE', ARGV[i], task)), entries = {}} end

for number = 0, count - 1 do
  local shift, id = by + number * step, string.format('%sa%023x', partition, first + number)
  for _, each in ipairs(moved) do record[each[1]] = each[3](each[2], shift) end
  redis.call('HSET', P .. ':t:' .. id, unpack(record))
  for _, each in ipairs(apart) do redis.call('SET', P .. ':v:' .. id .. each[1], each[3] and each[3](each[2], shift) or each[2]) end
  for _, set in ipairs(sets) do
    set.entries[#set.entries + 1], set.entries[#set.entries + 2] = string.format('%d', set.score + shift), id
  end
end
for _, set in ipairs(sets) do
  redis.call('ZADD', set.key, unpack(set.entries))
  local newest, beside = string.format('%d', set.score + by + (count - 1) * step), string.sub(set.key, #P + 1)
  local list, group = string.match(beside, '^:[nf]:(.*)$'), string.match(beside, '^:x:(.*:!%x+)$')
  if list then redis.call('ZADD', P .. ':newest', 'GT', newest, list) end
  if group then redis.call('ZADD', P .. ':groups', 'GT', newest, group) end
end
return count
