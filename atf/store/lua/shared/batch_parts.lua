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

-- The spec of a task as its run gets it: with the trace of its batch where it is an item. `traces`: batch -> that, as read before.
function batch_parts.with_trace(P, id, spec, traces)
  local batch = string.match(id, '^%d+%-([^.]+)%.')
  if not batch then return spec end
  local trace = traces[batch]
  if not trace then
    trace = redis.call('HGET', part_key(P, batch), 'tp') or ''
    traces[batch] = trace
  end
  return spec .. trace
end

local STEP = 256  -- items of one step of a walk

-- How many items of a batch lie here, by what they are counted as: see count_items.lua.
function batch_parts.counted(P, batch)
  local counts = redis.call('HMGET', part_key(P, batch), 'n', 'c0', 'c1', 'c100', 'c-1', 'c-2', 'c-3', 'begun')
  for i = 1, #counts do counts[i] = tonumber(counts[i] or 0) end
  return counts
end

-- A part's report to the batch partition: see batches.report; "": the part is gone.
local function send_report(P, batch, batch_partition, version, report, now)
  if batch_partition ~= number_of(P) then
    outbox.add(P, batch_partition, version .. outbox.words('batch_report', batch, number_of(P), report), now)
  elseif report ~= '' then
    batches.report(P, batch, batch_partition, report, now)
  else
    batches.part_gone(P, batch, batch_partition, now)
  end
end

-- A part's items have been counted anew: it reports to the batch partition when all of them have ended, or no longer have, unless a walk is under way.
function batch_parts.report(P, batch, now)
  local key = part_key(P, batch)
  local sealed, walk, n, done, failed, cancelled, reported, batch_partition, version, walk_version =
    fields_of(key, 'sealed', 'walk', 'n', 'c100', 'c-2', 'c-3', 'reported', 'batch_partition', 'v', 'wv')
  if sealed ~= '1' or walk then return end
  local live = tonumber(n or 0) > tonumber(done or 0) + tonumber(failed or 0) + tonumber(cancelled or 0)
  if live and not reported then return end
  local state = table.concat({version, walk_version or '0', live and '1' or '0', n or '0', done or '0', failed or '0', cancelled or '0'}, ' ')
  if state == reported then return end
  if live then redis.call('HDEL', key, 'reported') else redis.call('HSET', key, 'reported', state) end
  send_report(P, batch, batch_partition, version, grown(key, 'number', now) .. ' ' .. state, now)
end

-- What a walk does to an item.
local WALKS = {
  cancel = function(P, sets, id, now) moves.cancel(P, sets, id, now) end,
  retry = function(P, sets, id, now)
    local status, queue, ordering = fields_of(task_key(P, id), 's', 'q', 'k')
    if status == 'FATAL_FAILURE' then moves.start_afresh(P, id, queue, status, ordering, now, now, sets) end
  end,
  delete = function(P, sets, id, now)
    local status, _, running = unpack(moves.cancel(P, sets, id, now))
    local task = moves.task(P, id)
    if running == 1 then  -- its executor learns that it has lost it
      moves.end_task(P, sets, task, 'CANCELLED', now)
      status = 'CANCELLED'
    end
    if task.queue then
      lists.leave_finished(P, sets, id, task.queue, status)
      lists.leave(P, sets, id, lambda_of(task.queue))
    end
    record.drop(P, id, redis.call('HGET', task_key(P, id), 'ap'))
  end,
}

-- Goes on with a walk over a part's items; 1 where more are left. `at`: the number of the next one.
local function walk_on(P, batch, walk_version, what, at, now)
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
    redis.call('HSET', key, 'walk', walk_version .. ' ' .. fmt(tonumber(found[#found]) + 1))
    return 1
  end
  redis.call('HDEL', key, 'walk')
  redis.call('HSET', key, 'wv', walk_version)
  return 0
end

-- Gives a part what the batch partition knows. Returns 1 where a walk is to go on: the same once more, then.
function batch_parts.sync(P, batch, batch_partition, version, sealed, walk_version, what, now)
  local key = part_key(P, batch)
  local known_version, ended_walk, walk = fields_of(part_key(P, batch), 'v', 'wv', 'walk')
  if tonumber(version) < tonumber(known_version or 0) then return 0 end  -- what came before this says it all
  redis.call('HSET', key, 'batch_partition', batch_partition, 'v', version, 'sealed', sealed)
  if tonumber(walk_version) > tonumber(ended_walk or 0) then
    local of, at = string.match(walk or '', '^(%d+) (%d+)$')
    if of ~= walk_version then
      at = '0'
      redis.call('HSET', key, 'walk', walk_version .. ' 0')
      if what ~= 'retry' then redis.call('HSET', key, 'closed', '1') end
    end
    if walk_on(P, batch, walk_version, what, tonumber(at), now) == 1 then return 1 end
  end
  if what == 'delete' then
    redis.call('DEL', key, pauses_key(P, batch), batch_parts.items_key(P, batch))
    send_report(P, batch, batch_partition, version, '', now)
  else
    batch_parts.report(P, batch, now)
  end
  return 0
end
