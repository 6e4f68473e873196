-- Batches. An item is a task that lies where its work-item id says; its batch has a record in one partition, its batch partition, and a part in
-- each that may hold items of it. A part counts its items as they move (batch_parts.lua).
--
-- Batch partition and parts tell each other what they know by outbox records, which may come late, twice, and in any order; so each says all of it.
-- It syncs the parts (`batch_parts.sync`): the version v of what it knows, whether more items may come, and the newest walk: what is to be done
-- to each item. A part reports (`batches.report`), numbered, each time all its items have ended, or no longer have. The batch partition ends the batch
-- when every part has said so of the newest version and together they hold all items.
--
-- Of an extension the batch partition hands out numbers before the items are stored, and whoever asked for them may die in between. So the batch partition gives up on
-- numbers (`still`) when none have been asked for in a while and all parts, asked after that, say that what they hold has ended.

batches.EXTRA_FIRST = 50000000  -- numbers of items of an extension begin here where the caller's own are not known yet

batches.key = remembered(function(P, batch) return P .. ':batch:' .. batch end)

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

-- The batch has not ended, or no longer has: the batch partition asks its parts now and then.
function batches.goes_on(P, batch, now)
  redis.call('HDEL', batches.key(P, batch), 'ended', 'sums', 'err')
  redis.call('ZREM', P .. ':batches:ended', batch)
  redis.call('ZADD', P .. ':batches:open', fmt(now + batches.CHECK), batch)
end

-- How many items a batch is to have, of which so many are there: the batch partition gives up on numbers of extensions, if it is time to. Items that come
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
  local key = batches.key(P, batch)
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
    if home[6] then batches.goes_on(P, batch, now) end
    return
  end
  local said = fmt(sums[1]) .. ' ' .. fmt(sums[2]) .. ' ' .. fmt(sums[3]) .. ' ' .. fmt(sums[4])
  if said == home[6] then return end
  redis.call('HSET', key, 'sums', said, 'ended', fmt(now))
  retained(P, batch, now, tonumber(home[9]))
  redis.call('SPUBLISH', P .. ':bell:done', batch)
  if tonumber(home[8] or 0) < tonumber(home[7]) then  -- mutant: batch_end_untold
    redis.call('HSET', key, 'called', home[7])
    outbox.add(P, number_of(P), home[7] .. outbox.words('batch_ended', batch, home[7], fmt(now), said), now)
  end
end

-- The batch partition hears from a part: `report` is "number v wv live items done failed cancelled".
function batches.report(P, batch, part, report, now)
  local key = batches.key(P, batch)
  local known = redis.call('HMGET', key, 'v', 'r' .. part, 'deleting')
  local number = tonumber(string.match(report, '^%d+'))
  if not known[1] or known[3] or number <= tonumber(string.match(known[2] or '0', '^%d+')) then return 0 end
  redis.call('HSET', key, 'r' .. part, report)
  settle_batch(P, batch, now)
  return 1
end

-- The batch partition hears that a part of a batch that is deleted is gone. The id stays taken for a while, as a task's does.
function batches.part_gone(P, batch, part, now)
  local key = batches.key(P, batch)
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

-- Has all parts told what the batch partition knows; the part that lies here at once, as far as one step goes.
function batches.sync_parts(P, batch, now)
  local own = number_of(P)
  local home = redis.call('HMGET', batches.key(P, batch), 'v', 'sealed', 'wv', 'what', 'partitions', 'alone')
  local v, sealed, wv, what = home[1], home[2] or '0', home[3], home[4] or ''
  for _, part in ipairs(parts_of(P, home[5], home[6])) do
    if part ~= own or batch_parts.sync(P, batch, own, v, sealed, wv, what, now) == 1 then
      outbox.add(P, part, v .. outbox.words('batch', batch, own, v, sealed, wv, what), now)
    end
  end
end

-- Begins a walk over all items.
function batches.walk(P, batch, what, now)
  local v = grown(batches.key(P, batch), 'v', now)
  redis.call('HSET', batches.key(P, batch), 'wv', v, 'what', what)
  batches.sync_parts(P, batch, now)
end

function batches.delete(P, batch, now)
  redis.call('HSET', batches.key(P, batch), 'deleting', '1')
  redis.call('ZREM', P .. ':batches:ended', batch)
  redis.call('ZREM', P .. ':batches:open', batch)
  batches.walk(P, batch, 'delete', now)
end

-- A batch has not ended for a while: its parts tell the batch partition once more how they stand, in case a server that took over has forgotten what it heard.
function batches.check(P, batch, now)
  redis.call('ZADD', P .. ':batches:open', fmt(now + batches.CHECK), batch)
  local key = batches.key(P, batch)
  local home = redis.call('HMGET', key, 'sealed', 'extra', 'next', 'still')
  if home[1] ~= '1' then return end
  local v = grown(key, 'v', now)
  if home[2] then
    local at, since = string.match(home[4] or '', '^(%d+) (%d+) ')
    if at ~= home[3] then since = fmt(now) end
    redis.call('HSET', key, 'still', home[3] .. ' ' .. since .. ' ' .. (now - tonumber(since) < batches.PATIENCE and '0' or v))
  end
  batches.sync_parts(P, batch, now)
end

-- The retention of a batch is over, or the time for which the id of a deleted one stays taken.
function batches.sweep(P, batch, now)
  local home = redis.call('HMGET', batches.key(P, batch), 'v', 'gone')
  if home[1] then return batches.delete(P, batch, now) end
  redis.call('DEL', batches.key(P, batch))
  redis.call('ZREM', P .. ':batches:ended', batch)
  redis.call('ZREM', P .. ':batches', batch)
end
