-- A partition's part of a batch: the items that lie here, how many of them stand how, and what is to be done to all of them (batches.lua).

-- As what a batch counts an item, by the status of its task; the fields of a partition's part of it.
batch_parts.COUNTED = {
  NEW = 'c0', ENQUEUED = 'c0', CLAIMED = 'c1', PROCESSING = 'c1', SUCCESS = 'c100', RETRIABLE_FAILURE = 'c-1',
  FATAL_FAILURE = 'c-2', CANCELLED = 'c-3',
}

-- Adds to the counts that this partition keeps of a batch: field -> by how much.
function batch_parts.count(P, batch, counts, now)
  for field, by in pairs(counts) do
    if by ~= 0 then redis.call('HINCRBY', part_key(P, batch), field, by) end
  end
  if (counts.c1 or 0) > 0 then redis.call('HSET', part_key(P, batch), 'begun', '1') end
  batch_parts.report(P, batch, now)
end

batch_parts.items_key = remembered(function(P, batch) return P .. ':b:' .. batch .. ':i' end)

function batch_parts.item_id(P, batch, item) return number_of(P) .. '-' .. batch .. '.' .. item end

local STEP = 256  -- items of one step of a walk

-- How many items of a batch lie here, by what they are counted as: see count_items.lua.
function batch_parts.counted(P, batch)
  local counts = redis.call('HMGET', part_key(P, batch), 'n', 'c0', 'c1', 'c100', 'c-1', 'c-2', 'c-3', 'begun')
  for i = 1, #counts do counts[i] = tonumber(counts[i] or 0) end
  return counts
end

-- A part's items have been counted anew: the batch partition is told when all of them have ended, or no longer have, unless a walk is under way.
function batch_parts.report(P, batch, now)
  local key = part_key(P, batch)
  local part = redis.call('HMGET', key, 'sealed', 'walk', 'n', 'c100', 'c-2', 'c-3', 'told', 'home', 'v', 'wv')
  if part[1] ~= '1' or part[2] then return end
  local n, done, failed, cancelled = part[3] or '0', part[4] or '0', part[5] or '0', part[6] or '0'
  local live = tonumber(n) > tonumber(done) + tonumber(failed) + tonumber(cancelled)
  if live and not part[7] then return end
  local state = table.concat({part[9], part[10] or '0', live and '1' or '0', n, done, failed, cancelled}, ' ')
  if state == part[7] then return end
  local report = grown(key, 'number', now) .. ' ' .. state
  if live then redis.call('HDEL', key, 'told') else redis.call('HSET', key, 'told', state) end
  if part[8] == number_of(P) then
    batches.report(P, batch, part[8], report, now)
  else
    outbox.add(P, part[8], part[9] .. outbox.words('batch_report', batch, number_of(P), report), now)
  end
end

-- What a walk does to an item.
local WALKS = {
  cancel = function(P, sets, id, now) moves.cancel(P, sets, id, now) end,
  retry = function(P, sets, id, now)
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'k')
    if task[1] == 'FATAL_FAILURE' then moves.start_afresh(P, id, task[2], task[1], task[3], now, now, sets) end
  end,
  delete = function(P, sets, id, now)
    local status, _, running = unpack(moves.cancel(P, sets, id, now))
    local task = redis.call('HMGET', task_key(P, id), 'q', 'lim', 'k', 'w', 'h')
    if running == 1 then  -- its executor is told that it has lost it
      moves.end_task(P, sets, id, task[1], status, 'CANCELLED', now, task[2], task[3], task[4], true, task[5])
      status = 'CANCELLED'
    end
    if task[1] then sets.ZREM(done_key(P, lambda_of(task[1]), status), id) end
    redis.call('DEL', task_key(P, id))
  end,
}

-- Goes on with a walk over a part's items; 1 where more are left. `at`: the number of the next one.
local function walk_on(P, batch, wv, what, at, now)
  local key, items = part_key(P, batch), batch_parts.items_key(P, batch)
  local found = redis.call('ZRANGE', items, fmt(at), '+inf', 'BYSCORE', 'LIMIT', 0, STEP, 'WITHSCORES')
  local ids = {}
  writes.gather(#found / 2, function(sets)
    for i = 1, #found, 2 do
      ids[#ids + 1] = found[i]
      WALKS[what](P, sets, batch_parts.item_id(P, batch, found[i]), now)
    end
  end)
  if what == 'delete' and #ids > 0 then redis.call('ZREM', items, unpack(ids)) end
  if #ids == STEP then
    redis.call('HSET', key, 'walk', wv .. ' ' .. fmt(tonumber(found[#found]) + 1))
    return 1
  end
  redis.call('HDEL', key, 'walk')
  redis.call('HSET', key, 'wv', wv)
  return 0
end

-- A part is told what the batch partition knows. Returns 1 where a walk is to go on: the same once more, then.
function batch_parts.sync(P, batch, home, v, sealed, wv, what, now)
  local key = part_key(P, batch)
  local part = redis.call('HMGET', key, 'v', 'wv', 'walk')
  if tonumber(v) < tonumber(part[1] or 0) then return 0 end  -- what came before this says it all
  redis.call('HSET', key, 'home', home, 'v', v, 'sealed', sealed)
  if tonumber(wv) > tonumber(part[2] or 0) then
    local of, at = string.match(part[3] or '', '^(%d+) (%d+)$')
    if of ~= wv then
      at = '0'
      redis.call('HSET', key, 'walk', wv .. ' 0')
      if what ~= 'retry' then redis.call('HSET', key, 'closed', '1') end
    end
    if walk_on(P, batch, wv, what, tonumber(at), now) == 1 then return 1 end
  end
  if what == 'delete' then
    redis.call('DEL', key, pauses_key(P, batch), batch_parts.items_key(P, batch))
    if home == number_of(P) then
      batches.part_gone(P, batch, home, now)
    else
      outbox.add(P, home, v .. outbox.words('batch_report', batch, number_of(P), ''), now)
    end
  else
    batch_parts.report(P, batch, now)
  end
  return 0
end
