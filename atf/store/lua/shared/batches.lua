-- Batches. An item is a task that lies where its work-item id says; its batch has a record in one partition, its home, and a part in
-- each that may hold items of it. A part counts its items as they move (`count_items` in common.lua).
--
-- Home and parts tell each other what they know by outbox records, which may come late, twice, and in any order; so each says all of it.
-- Home tells the parts (`tell_part`) the version v of what it knows, whether more items may come, and the newest walk: what is to be done
-- to each item. A part tells home (`hear_part`), numbered, each time all its items have ended, or no longer have. Home ends the batch
-- when every part has said so of the newest version and together they hold all items.
--
-- Of an extension home hands out numbers before the items are stored, and whoever asked for them may die in between. So home gives up on
-- numbers (`still`) when none have been asked for in a while and all parts, asked after that, say that what they hold has ended.

local EXTRA_FIRST = 50000000  -- numbers of items of an extension begin here where the caller's own are not known yet

local batch_key = remembered(function(P, batch) return P .. ':batch:' .. batch end)
local items_key = remembered(function(P, batch) return P .. ':b:' .. batch .. ':i' end)
local function number_of(P) return string.match(P, '{(%d+)}') end
local function item_id(P, batch, item) return number_of(P) .. '-' .. batch .. '.' .. item end

-- What verbs use of what follows, which is in a function of its own: Lua allows 200 locals in one.
local goes_on, hear_part, part_gone, tell_part, tell_parts, walk_batch, delete_batch, sweep_batch, check_batch
local function define_batches()

local STEP = 256  -- items of one step of a walk

local function strings(...) return '\n["' .. table.concat({...}, '","') .. '"]' end  -- nothing in them needs to be escaped

-- How many items of a batch lie here, by what they are counted as: see count_items.lua.
function BATCH.counted(P, batch)
  local counts = redis.call('HMGET', part_key(P, batch), 'n', 'c0', 'c1', 'c100', 'c-1', 'c-2', 'c-3', 'begun')
  for i = 1, #counts do counts[i] = tonumber(counts[i] or 0) end
  return counts
end

-- The partitions in which a batch has parts.
local function parts_of(P, partitions, alone)
  if alone == '1' then return {number_of(P)} end
  local found = {}
  for part = 0, tonumber(partitions) - 1 do found[part + 1] = fmt(part) end
  return found
end

-- The batch has ended, and is kept so long.
local function retained(P, batch, now, retention)
  redis.call('ZREM', P .. ':batches:open', batch)
  redis.call('ZADD', P .. ':batches:ended', fmt(now + retention), batch)
end

-- The batch has not ended, or no longer has: home asks its parts now and then.
goes_on = function(P, batch, now)
  redis.call('HDEL', batch_key(P, batch), 'ended', 'sums', 'err')
  redis.call('ZREM', P .. ':batches:ended', batch)
  redis.call('ZADD', P .. ':batches:open', fmt(now + BATCH.CHECK), batch)
end

-- How many items a batch is to have, of which so many are there: home gives up on numbers of extensions, if it is time to. Items that come
-- after that count all the same, in a round of their own where the callbacks have been told of the others.
local function reckon(key, total, items)
  local home = redis.call('HMGET', key, 'still', 'v', 'next', 'main', 'round', 'called')
  local at, _, v = string.match(home[1] or '', '^(%d+) (%d+) (%d+)$')
  local main = tonumber(home[4])
  if items < total and (v ~= home[2] or at ~= home[3] or items < main) then return total end
  redis.call('HSET', key, 'extra', fmt(items - main))
  if items > total and home[5] == home[6] then redis.call('HINCRBY', key, 'round', 1) end
  return items
end

-- Ends a batch of which all items have ended, or has one go on of which an item was started afresh.
local function settle_batch(P, batch, now)
  local key = batch_key(P, batch)
  local home = redis.call('HMGET', key, 'v', 'wv', 'main', 'extra', 'cancelled', 'sums', 'round', 'called', 'ret', 'partitions', 'alone')
  local total = home[5] and 0 or home[3] and tonumber(home[3]) + tonumber(home[4] or 0)
  local sums, all = {0, 0, 0, 0}, total ~= nil and total ~= false
  for _, part in ipairs(all and parts_of(P, home[10], home[11]) or {}) do
    local report = redis.call('HGET', key, 'r' .. part) or ''
    local v, wv, live, n, done, failed, cancelled = string.match(report, '^%d+ (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (%d+)$')
    all = v == home[1] and wv == home[2] and live == '0'
    if not all then break end
    for i, each in ipairs({n, done, failed, cancelled}) do sums[i] = sums[i] + tonumber(each) end
  end
  if all and sums[1] ~= total and not home[5] then
    total = reckon(key, total, sums[1])
    home[7] = redis.call('HGET', key, 'round')
  end
  all = all and sums[1] >= total
  if not all then
    if home[6] then goes_on(P, batch, now) end
    return
  end
  local said = fmt(sums[1]) .. ' ' .. fmt(sums[2]) .. ' ' .. fmt(sums[3]) .. ' ' .. fmt(sums[4])
  if said == home[6] then return end
  redis.call('HSET', key, 'sums', said, 'ended', fmt(now))
  retained(P, batch, now, tonumber(home[9]))
  redis.call('SPUBLISH', P .. ':bell:done', batch)
  if tonumber(home[8] or 0) < tonumber(home[7]) then  -- mutant: batch_end_untold
    redis.call('HSET', key, 'called', home[7])
    owe(P, number_of(P), home[7] .. strings('batch_ended', batch, home[7], fmt(now), said), now)
  end
end

-- Home hears from a part: `report` is "number v wv live items done failed cancelled".
hear_part = function(P, batch, part, report, now)
  local key = batch_key(P, batch)
  local known = redis.call('HMGET', key, 'v', 'r' .. part, 'deleting')
  local number = tonumber(string.match(report, '^%d+'))
  if not known[1] or known[3] or number <= tonumber(string.match(known[2] or '0', '^%d+')) then return 0 end
  redis.call('HSET', key, 'r' .. part, report)
  settle_batch(P, batch, now)
  return 1
end

-- Home hears that a part of a batch that is deleted is gone. The id stays taken for a while, as a task's does.
part_gone = function(P, batch, part, now)
  local key = batch_key(P, batch)
  local home = redis.call('HMGET', key, 'deleting', 'partitions', 'alone', 'd')
  if not home[1] then return 0 end
  redis.call('HSET', key, 'g' .. part, '1')
  for _, each in ipairs(parts_of(P, home[2], home[3])) do
    if redis.call('HEXISTS', key, 'g' .. each) == 0 then return 1 end
  end
  redis.call('DEL', key)
  redis.call('HSET', key, 'gone', fmt(now), 'd', home[4])
  retained(P, batch, now, TOMBSTONE)
  return 1
end

-- A part's items have been counted anew: home is told when all of them have ended, or no longer have, unless a walk is under way.
batch_counted = function(P, batch, now)
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
    hear_part(P, batch, part[8], report, now)
  else
    owe(P, part[8], part[9] .. strings('batch_report', batch, number_of(P), report), now)
  end
end

-- What a walk does to an item.
local WALKS = {
  cancel = function(P, sets, id, now) cancel_task(P, sets, id, now) end,
  retry = function(P, sets, id, now)
    local task = redis.call('HMGET', task_key(P, id), 's', 'q', 'k')
    if task[1] == 'FATAL_FAILURE' then start_afresh(P, id, task[2], task[1], task[3], now, now, sets) end
  end,
  delete = function(P, sets, id, now)
    local status, _, running = unpack(cancel_task(P, sets, id, now))
    local task = redis.call('HMGET', task_key(P, id), 'q', 'lim', 'k', 'w', 'h')
    if running == 1 then  -- its executor is told that it has lost it
      rest(P, sets, id, task[1], status, 'CANCELLED', now, task[2], task[3], task[4], true, task[5])
      status = 'CANCELLED'
    end
    if task[1] then sets.ZREM(done_key(P, lambda_of(task[1]), status), id) end
    redis.call('DEL', task_key(P, id))
  end,
}

-- Goes on with a walk over a part's items; 1 where more are left. `at`: the number of the next one.
local function walk_on(P, batch, wv, what, at, now)
  local key, items = part_key(P, batch), items_key(P, batch)
  local found = redis.call('ZRANGE', items, fmt(at), '+inf', 'BYSCORE', 'LIMIT', 0, STEP, 'WITHSCORES')
  local ids = {}
  gathering(#found / 2, function(sets)
    for i = 1, #found, 2 do
      ids[#ids + 1] = found[i]
      WALKS[what](P, sets, item_id(P, batch, found[i]), now)
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

-- A part is told what home knows. Returns 1 where a walk is to go on: the same once more, then.
tell_part = function(P, batch, home, v, sealed, wv, what, now)
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
    redis.call('DEL', key, pauses_key(P, batch), items_key(P, batch))
    if home == number_of(P) then
      part_gone(P, batch, home, now)
    else
      owe(P, home, v .. strings('batch_report', batch, number_of(P), ''), now)
    end
  else
    batch_counted(P, batch, now)
  end
  return 0
end

-- Has all parts told what home knows; the part that lies here at once, as far as one step goes.
tell_parts = function(P, batch, now)
  local own = number_of(P)
  local home = redis.call('HMGET', batch_key(P, batch), 'v', 'sealed', 'wv', 'what', 'partitions', 'alone')
  local v, sealed, wv, what = home[1], home[2] or '0', home[3], home[4] or ''
  for _, part in ipairs(parts_of(P, home[5], home[6])) do
    if part ~= own or tell_part(P, batch, own, v, sealed, wv, what, now) == 1 then
      owe(P, part, v .. strings('batch', batch, own, v, sealed, wv, what), now)
    end
  end
end

-- Begins a walk over all items.
walk_batch = function(P, batch, what, now)
  local v = grown(batch_key(P, batch), 'v', now)
  redis.call('HSET', batch_key(P, batch), 'wv', v, 'what', what)
  tell_parts(P, batch, now)
end

delete_batch = function(P, batch, now)
  redis.call('HSET', batch_key(P, batch), 'deleting', '1')
  redis.call('ZREM', P .. ':batches:ended', batch)
  redis.call('ZREM', P .. ':batches:open', batch)
  walk_batch(P, batch, 'delete', now)
end

-- A batch has not ended for a while: its parts tell home once more how they stand, in case a server that took over has forgotten what it heard.
check_batch = function(P, batch, now)
  redis.call('ZADD', P .. ':batches:open', fmt(now + BATCH.CHECK), batch)
  local key = batch_key(P, batch)
  local home = redis.call('HMGET', key, 'sealed', 'extra', 'next', 'still')
  if home[1] ~= '1' then return end
  local v = grown(key, 'v', now)
  if home[2] then
    local at, since = string.match(home[4] or '', '^(%d+) (%d+) ')
    if at ~= home[3] then since = fmt(now) end
    redis.call('HSET', key, 'still', home[3] .. ' ' .. since .. ' ' .. (now - tonumber(since) < BATCH.PATIENCE and '0' or v))
  end
  tell_parts(P, batch, now)
end

-- The retention of a batch is over, or the time for which the id of a deleted one stays taken.
sweep_batch = function(P, batch, now)
  local home = redis.call('HMGET', batch_key(P, batch), 'v', 'gone')
  if home[1] then return delete_batch(P, batch, now) end
  redis.call('DEL', batch_key(P, batch))
  redis.call('ZREM', P .. ':batches:ended', batch)
  redis.call('ZREM', P .. ':batches', batch)
end

end
define_batches()
