-- What becomes of a task that is lost with its executor, or whose lease has expired.

-- How often in a row the end of a lease has counted nothing (the field y): where its executor drained, and where the run had not said
-- that it started.
local function lapses_of(text)
  local draining, unstarted = string.match(text or '', '^(%d+) (%d+)$')
  return tonumber(draining or 0), tonumber(unstarted or 0)
end

-- A lease has run out. Returns why, how often in a row that has counted nothing now, or nil where it counts as a loss, and whether
-- the task is to run alone from now on. A run that has started ends the second row.
local function lapse(status, marked, text)
  local draining, unstarted = lapses_of(text)
  if status == 'PROCESSING' then unstarted = 0 end
  if marked then
    draining = draining + 1
    local left = draining <= loss.DRAINING  -- mutant: drained_lapses_left
    return 'lease expired while its executor drained', left and draining .. ' ' .. unstarted or nil, false
  elseif status == 'PROCESSING' then
    return 'lease expired', nil, false
  end
  unstarted = unstarted + 1
  local left = unstarted <= loss.UNSTARTED  -- mutant: unstarted_lapses_left
  local alone = not left  -- mutant: unstarted_and_not_alone
  return 'lease expired before the run said that it started', left and draining .. ' ' .. unstarted or nil, alone
end

-- A run has ended with its executor, or its lease has run out (no `why`): CLAIMED, PROCESSING -> ENQUEUED, to be pushed again at once;
-- FATAL_FAILURE where it has been lost too often; CANCELLED where that was asked for. `shared`: see report_loss.lua.
function loss.record(P, id, now, why, shared)
  local task, attempts, losses, runs, started, claim, marked, before = moves.task(P, id, 'a', 'l', 'R', 't4', 'c', 'm', 'y')
  local status, queue = task.status, task.queue
  local counter, _, _, owner = moves.claim_of(claim)
  local _, most_losses = run_log.limits(task.limits)
  local lapses
  losses = tonumber(losses or 0)
  local alone = shared and losses > 0
  local counted = not alone  -- mutant: crash_in_a_drain_is_forgiven
  if not why then
    why, lapses, alone = lapse(status, marked == counter, before)  -- mutant: mark_outlives_its_claim
    counted = not lapses
  end
  if counted then losses = losses + 1 end
  local ran = status == 'PROCESSING' and started and fmt(now - tonumber(started))
  local line = 'lost: ' .. why .. (counted and '' or ' (not counted)')
  runs = record.put(P, id, 'R', run_log.add(record.get(P, id, 'R', runs), owner or '', now, ran, tonumber(attempts or 0) + 1, line))
  if task.flagged then
    moves.end_task(P, writes.AT_ONCE, task, 'CANCELLED', now, 'l', losses, 'R', runs)
  elseif counted and losses >= most_losses then  -- mutant: one_loss_more
    local err = record.put(P, id, 'err', 'lost with its executor ' .. losses .. ' times; last: ' .. why)
    moves.end_task(P, writes.AT_ONCE, task, 'FATAL_FAILURE', now, 'l', losses, 'R', runs, 'err', err)
    run_ends.count(P, lambda_of(queue), 1, 1, now)
  else
    redis.call('HDEL', task_key(P, id), 'e')
    moves.move(P, writes.AT_ONCE, id, queue, status, 'ENQUEUED', now, now, 'l', losses, 'R', runs)  -- mutant: lost_task_waits
    if alone then redis.call('HSET', task_key(P, id), 'z', '1') end
    if lapses then redis.call('HSET', task_key(P, id), 'y', lapses) elseif before then redis.call('HDEL', task_key(P, id), 'y') end
    if task.watched then ticks.hold(P, writes.AT_ONCE, id, queue, 'ENQUEUED', task.watched, now, task.held, now) end
    due_index.visit_by(P, queue, now)
  end
end
