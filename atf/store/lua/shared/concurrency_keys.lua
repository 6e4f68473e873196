-- A concurrency key has slots, as many as each of its tasks says. A due task takes one before it is pushed, and holds it until it
-- ends or backs off (`moves.let_go`). Where none is free it waits in the key's line, never due, until `concurrency_keys.give_slots` gives it one: each task is
-- looked at once, however many wait.

-- Gives the free slots of a concurrency key to those that have waited longest: they are due, and hold them from now on.
function concurrency_keys.give_slots(P, key, now)
  local taken = redis.call('ZCARD', slots_key(P, key))
  for _ = 1, PART do
    local first = redis.call('ZRANGE', line_key(P, key), 0, 0, 'WITHSCORES')
    local id = first[1]
    if not id then
      redis.call('ZREM', P .. ':lines', key)
      return
    end
    local status, queue, concurrency, waited = fields_of(task_key(P, id), 's', 'q', 'kc', 'wr')
    local waits = concurrency and (status == 'NEW' or status == 'RETRIABLE_FAILURE')  -- else somebody has deleted its record
    if waits and taken >= tonumber(string.match(concurrency, ' (%d+) ')) then return end
    redis.call('ZREM', line_key(P, key), id)
    if waits then
      redis.call('ZADD', slots_key(P, key), fmt(now), id)
      redis.call('ZADD', live_key(P, queue, status), first[2], id)
      wait_notes.note(P, id, waited, 'k', now)
      pushing.due(P, queue, now, now)
      taken = taken + 1
    end
  end
end

local QUEUE, SKIP, CANCEL_RUNNING = '0', '1', '2'

local function never_claimed(P, id)
  local _, run = moves.claim_of(redis.call('HGET', task_key(P, id), 'c'))
  return tonumber(run or 0) == 0
end

local LOOKED_AT = 64  -- of the tasks that hold a slot, when one of them is to be cancelled

-- Cancels the oldest task of a concurrency key that is not to end anyway: of those that hold a slot, else of those that wait. Returns
-- which one has ended by that.
local function cancel_oldest(P, key, now, but)
  for _, set in ipairs({slots_key(P, key), line_key(P, key)}) do
    for _, id in ipairs(redis.call('ZRANGE', set, 0, LOOKED_AT - 1)) do
      local task = moves.task(P, id)
      local claimed = task.status == 'CLAIMED' or task.status == 'PROCESSING'
      if claimed and not task.flagged then
        redis.call('HSET', task_key(P, id), 'x', '1')
        return nil
      elseif id ~= but and not claimed and task.held and not FINISHED[task.status] then
        moves.end_task(P, writes.AT_ONCE, task, 'CANCELLED', now, 'err', 'cancelled for a later task of its concurrency key')
        return id
      end
    end
  end
end

-- Of due tasks, those that hold a slot of their concurrency key or have none, and by id which hold one, and how many tasks were
-- cancelled; what finds no slot waits in line, or is cancelled. A task that has run before always waits: it was let in once.
function concurrency_keys.admit(P, queue, status, ids, now)
  local free, holding, gone, cancelled = {}, {}, {}, 0
  for _, id in ipairs(ids) do
    local key, limit, policy = string.match(redis.call('HGET', task_key(P, id), 'kc') or '', '^(%S+) (%d+) (%d)$')
    local slots = key and slots_key(P, key)
    if gone[id] then  -- cancelled for a task that was before it here
    elseif not key then
      free[#free + 1] = id
    elseif redis.call('ZSCORE', slots, id) then
      free[#free + 1], holding[id] = id, true
    elseif redis.call('ZSCORE', line_key(P, key), id) then
      redis.call('ZADD', live_key(P, queue, status), '+inf', id)
    else
      local taken = redis.call('ZCARD', slots)
      if taken < tonumber(limit) and redis.call('EXISTS', line_key(P, key)) == 0 then  -- mutant: no_slots
        redis.call('ZADD', slots, fmt(now), id)
        redis.call('HSET', task_key(P, id), 'h', 'k')
        free[#free + 1], holding[id] = id, true
      elseif policy == SKIP and status == 'NEW' and never_claimed(P, id) then
        local why = 'skipped: ' .. taken .. ' of ' .. limit .. ' tasks of its concurrency key were under way'
        moves.end_task(P, writes.AT_ONCE, moves.task(P, id), 'CANCELLED', now, 'err', record.put(P, id, 'err', why))
        cancelled = cancelled + 1
      else
        redis.call('ZADD', line_key(P, key), redis.call('ZSCORE', live_key(P, queue, status), id), id)
        redis.call('ZADD', live_key(P, queue, status), '+inf', id)
        redis.call('HSET', task_key(P, id), 'h', 'k')
        wait_notes.park(P, id, status, now)
        redis.call('ZADD', P .. ':lines', 'NX', fmt(now + LINE_CHECK), key)
        local ended = policy == CANCEL_RUNNING and cancel_oldest(P, key, now, id)
        if ended then gone[ended], cancelled = true, cancelled + 1 end
      end
    end
  end
  if next(gone) then
    local left = {}
    for _, id in ipairs(free) do
      if not gone[id] then left[#left + 1] = id end
    end
    free = left
  end
  return free, holding, cancelled
end

-- A task whose record somebody has deleted lets go of nothing. So a key whose line is not empty is looked at now and then: slots of tasks
-- that are neither due nor pushed are free.
function concurrency_keys.check(P, now)
  for _, key in ipairs(redis.call('ZRANGE', P .. ':lines', '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, LINES_PER_PASS)) do
    redis.call('ZADD', P .. ':lines', fmt(now + LINE_CHECK), key)
    for _, id in ipairs(redis.call('ZRANGE', slots_key(P, key), 0, PART - 1)) do
      local status, queue = fields_of(task_key(P, id), 's', 'q')
      local pushed = status == 'ENQUEUED' or status == 'CLAIMED' or status == 'PROCESSING'
      local score = queue and not pushed and tonumber(redis.call('ZSCORE', live_key(P, queue, status), id) or nil)
      if not pushed and not (score and score <= now) then redis.call('ZREM', slots_key(P, key), id) end
    end
    concurrency_keys.give_slots(P, key, now)
  end
end
