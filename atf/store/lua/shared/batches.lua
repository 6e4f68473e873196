-- Batches. An item is a task that lies where its work-item id says; its batch has a record in one partition, its batch partition, and a part in
-- each that may hold items of it. A part counts its items as they move (batch_parts.lua).
--
-- Batch partition and parts send each other what they know by outbox records, which may come late, twice, and in any order; so each says all of it.
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
  local still, version, next_number, main, round, called = fields_of(key, 'still', 'v', 'next', 'main', 'round', 'called')
  local at, _, since_version = string.match(still or '', '^(%d+) (%d+) (%d+)$')
  if items < total and (since_version ~= version or at ~= next_number or items < tonumber(main)) then return total end
  redis.call('HSET', key, 'extra', fmt(items - tonumber(main)))
  if items > total and round == called then redis.call('HINCRBY', key, 'round', 1) end
  return items
end

-- What all parts of a batch together have said of the newest version and walk: items, done, failed for good, cancelled; nil where one of them
-- has not said it yet, or has items that live.
local function sums_of(key, parts, version, walk_version)
  local sums = {0, 0, 0, 0}
  for _, part in ipairs(parts) do
    local report = redis.call('HGET', key, 'r' .. part) or ''
    local v, wv, live, n, done, failed, cancelled = string.match(report, '^%d+ (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (%d+)$')
    if v ~= version or wv ~= walk_version or live ~= '0' then return nil end
    for i, each in ipairs({n, done, failed, cancelled}) do sums[i] = sums[i] + tonumber(each) end
  end
  return sums
end

-- Ends a batch of which all items have ended, or has one go on of which an item was started afresh.
local function end_or_go_on(P, batch, now)
  local key = batches.key(P, batch)
  local version, walk_version, main, extra, cancelled, sums, round, called, retention, partitions, alone =
    fields_of(key, 'v', 'wv', 'main', 'extra', 'cancelled', 'sums', 'round', 'called', 'ret', 'partitions', 'alone')
  local total = cancelled and 0 or main and tonumber(main) + tonumber(extra or 0)
  local all = total and sums_of(key, parts_of(P, partitions, alone), version, walk_version)
  if all and all[1] ~= total and not cancelled then
    total = reckon(key, total, all[1])
    round = redis.call('HGET', key, 'round')
  end
  if not all or all[1] < total then
    if sums then batches.goes_on(P, batch, now) end
    return
  end
  local text = fmt(all[1]) .. ' ' .. fmt(all[2]) .. ' ' .. fmt(all[3]) .. ' ' .. fmt(all[4])
  if text == sums then return end
  redis.call('HSET', key, 'sums', text, 'ended', fmt(now))
  retained(P, batch, now, tonumber(retention))
  redis.call('SPUBLISH', P .. ':notify:done', batch)
  if tonumber(called or 0) < tonumber(round) then  -- mutant: batch_end_unreported
    redis.call('HSET', key, 'called', round)
    outbox.add(P, number_of(P), round .. outbox.words('batch_ended', batch, round, now, text), now)
  end
end

-- A part reports to the batch partition: `report` is "number v wv live items done failed cancelled".
function batches.report(P, batch, part, report, now)
  local key = batches.key(P, batch)
  local version, report_before, deleting = fields_of(key, 'v', 'r' .. part, 'deleting')
  local number = tonumber(string.match(report, '^%d+'))
  if not version or deleting or number <= tonumber(string.match(report_before or '0', '^%d+')) then return 0 end
  redis.call('HSET', key, 'r' .. part, report)
  end_or_go_on(P, batch, now)
  return 1
end

-- A part of a batch that is deleted reports that it is gone. The id stays taken for a while, as a task's does.
function batches.part_gone(P, batch, part, now)
  local key = batches.key(P, batch)
  local deleting, partitions, alone, digest = fields_of(key, 'deleting', 'partitions', 'alone', 'd')
  if not deleting then return 0 end
  redis.call('HSET', key, 'g' .. part, '1')
  for _, each in ipairs(parts_of(P, partitions, alone)) do
    if redis.call('HEXISTS', key, 'g' .. each) == 0 then return 1 end
  end
  redis.call('DEL', key)
  redis.call('HSET', key, 'gone', fmt(now), 'd', digest)
  retained(P, batch, now, TOMBSTONE)
  return 1
end

-- Syncs all parts with what the batch partition knows; the part that lies here at once, as far as one step goes.
function batches.sync_parts(P, batch, now)
  local own = number_of(P)
  local version, sealed, walk_version, walk, partitions, alone = fields_of(batches.key(P, batch), 'v', 'sealed', 'wv', 'what', 'partitions', 'alone')
  sealed, walk = sealed or '0', walk or ''
  for _, part in ipairs(parts_of(P, partitions, alone)) do
    if part ~= own or batch_parts.sync(P, batch, own, version, sealed, walk_version, walk, now) == 1 then
      outbox.add(P, part, version .. outbox.words('batch', batch, own, version, sealed, walk_version, walk), now)
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

-- A batch has not ended for a while: its parts report to the batch partition once more how they stand, in case a server that took over has forgotten their reports.
function batches.check(P, batch, now)
  redis.call('ZADD', P .. ':batches:open', fmt(now + batches.CHECK), batch)
  local key = batches.key(P, batch)
  local sealed, extra, next_number, still = fields_of(key, 'sealed', 'extra', 'next', 'still')
  if sealed ~= '1' then return end
  local version = grown(key, 'v', now)
  if extra then
    local at, since = string.match(still or '', '^(%d+) (%d+) ')
    if at ~= next_number then since = fmt(now) end
    redis.call('HSET', key, 'still', next_number .. ' ' .. since .. ' ' .. (now - tonumber(since) < batches.PATIENCE and '0' or version))
  end
  batches.sync_parts(P, batch, now)
end

-- The retention of a batch is over, or the time for which the id of a deleted one stays taken.
function batches.sweep(P, batch, now)
  if redis.call('HEXISTS', batches.key(P, batch), 'v') == 1 then return batches.delete(P, batch, now) end
  redis.call('DEL', batches.key(P, batch))
  redis.call('ZREM', P .. ':batches:ended', batch)
  redis.call('ZREM', P .. ':batches', batch)
end
