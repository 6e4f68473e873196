-- Reads several sorted sets as one, newest or oldest first, a chunk of each at a time; and none that can't have the next entry. Entries of one
-- score come in the order of their ids' bytes: Lua's own comparison would go by the server's locale.
--
-- A merge is {oldest = whether it goes that way, from, after = score and id that it goes on behind (nil = from the start), since, until_ =
-- bounds of scores: since <= score < until_ (nil = none)}; its heap holds sets, the one with the next entry first. A set of which it is known
-- how new its entries are is opened when its turn may have come; until then it stands there with a score that none of them comes before.

local FIRST, MORE, MOST = 1, 4, 64  -- entries that are read of a set at once: few at first, since of most of many sets a page has few or none

-- Whether id a comes before id b.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- Whether an entry comes before another one.
local function before(m, score, id, other_score, other)
  if score ~= other_score then return (score < other_score) == m.oldest end
  if not id or not other then return not id end  -- what has not been opened may begin with any
  return id ~= other and less(id, other) == m.oldest
end

local function first_of(m, a, b)
  if a.score ~= b.score then return (a.score < b.score) == m.oldest end
  return before(m, a.score, a.id, b.score, b.id)
end

local function push(m, set)
  local heap, at = m.heap, #m.heap + 1
  while at > 1 do
    local above = math.floor(at / 2)
    if not first_of(m, set, heap[above]) then break end
    heap[at], at = heap[above], above
  end
  heap[at] = set
end

-- Puts a set where the first one stood, and then to its place.
local function replace_first(m, set)
  local heap, at = m.heap, 1
  local count = #heap
  while 2 * at <= count do
    local below = 2 * at
    if below < count and first_of(m, heap[below + 1], heap[below]) then below = below + 1 end
    if not first_of(m, heap[below], set) then break end
    heap[at], at = heap[below], below
  end
  heap[at] = set
end

-- Takes out the first set.
local function drop_first(m)
  local last = table.remove(m.heap)
  if m.heap[1] then replace_first(m, last) end
end

local function score_text(score) return score == math.huge and '+inf' or fmt(score) end

local function passed(m, key, bound)  -- entries that come before a score, or with it
  if m.oldest then return redis.call('ZCOUNT', key, '-inf', bound) end
  return redis.call('ZCOUNT', key, bound, '+inf')
end

-- The rank of a set's first entry for this merge, counted from where it begins; of those with the score that the merge goes on behind, all.
local function first_rank(m, key)
  if m.from then return passed(m, key, '(' .. score_text(m.from)) end
  if m.oldest then return m.since and passed(m, key, '(' .. fmt(m.since)) or 0 end
  return m.until_ and passed(m, key, fmt(m.until_)) or 0
end

-- The rank of the first one that comes behind the entry that the merge goes on behind, where a set has others of its score from a rank on.
local function rank_behind(m, key, low)
  local high = passed(m, key, score_text(m.from))
  while low < high do
    local middle = math.floor((low + high) / 2)
    local id = m.oldest and redis.call('ZRANGE', key, fmt(middle), fmt(middle))[1] or redis.call('ZRANGE', key, fmt(middle), fmt(middle), 'REV')[1]
    if id ~= m.after and less(m.after, id) == m.oldest then high = middle else low = middle + 1 end  -- mutant: cursor_skips_equals
  end
  return low
end

-- Moves a set on to its next entry; false: it has no more for this merge.
local function advance(m, set)
  set.at = set.at + 2
  if set.at > #set.chunk then
    if set.at > 1 and #set.chunk < 2 * set.size then return false end
    set.size = set.size and math.min(MORE * set.size, MOST) or FIRST
    local to = fmt(set.rank + set.size - 1)
    set.chunk = m.oldest and redis.call('ZRANGE', set.key, fmt(set.rank), to, 'WITHSCORES') or redis.call('ZRANGE', set.key, fmt(set.rank), to, 'REV', 'WITHSCORES')
    set.rank, set.at = set.rank + set.size, 1
    if #set.chunk == 0 then return false end
  end
  local score = set.chunk[set.at + 1]
  set.id, set.score = set.chunk[set.at], (score == 'inf' or score == '+inf') and math.huge or tonumber(score)
  if m.oldest then return not m.until_ or set.score < m.until_ end
  return not m.since or set.score >= m.since
end

-- Opens a set: reads its first entry for this merge. False: it has none.
local function open(m, set)
  local first = first_rank(m, set.key)
  set.rank, set.chunk, set.at = first, NOTHING, -1
  local there = advance(m, set)
  if there and m.from == set.score and (set.id == m.after or less(set.id, m.after) == m.oldest) then
    set.rank, set.chunk, set.at, set.size = rank_behind(m, set.key, first), NOTHING, -1, nil
    there = advance(m, set)
  end
  return there
end

-- Adds a set to a merge. `newest`: a score that none of its entries is above; nil: not known.
function merge.add(m, key, newest, of)
  local set = {key = key, of = of}
  if newest and not m.oldest then
    set.score = newest
    push(m, set)
  elseif open(m, set) then
    push(m, set)
  end
end

-- A new merge; see above. `more` says the next set, as merge.add takes it, and nil after the last: sets whose newest entries are known, in the
-- order of these, behind those of which that is not known.
function merge.open(m, more)
  m.heap, m.more = {}, more
  if more then m.key, m.newest, m.of = more() end
  return m
end

-- Adds the sets that may have the next entry.
local function reach(m)
  while m.key and (m.oldest or not m.newest or not m.heap[1] or m.newest >= m.heap[1].score) do
    merge.add(m, m.key, m.newest, m.of)
    m.key, m.newest, m.of = m.more()
  end
end

-- Whether there may be more entries.
function merge.goes_on(m) return (m.heap[1] or m.key) ~= nil end

-- The next entry: id, score, and what was given as `of` with its set; nil: that was the last one.
function merge.next(m)
  reach(m)
  while m.heap[1] do
    local set = m.heap[1]
    local id, score = set.id, set.score
    local there
    if id then there = advance(m, set) else there = open(m, set) end
    if there then replace_first(m, set) else drop_first(m) end
    if id then return id, score, set.of end
    reach(m)
  end
end
