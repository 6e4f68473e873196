-- set_results: records how runs ended (same token). What was cancelled meanwhile stops, unless it succeeded. A run that was handed
--              back is pushed again at once or after its wait, and a misfit waits (misfits.lua); these two count no attempt.
-- MOVES    succeed: CLAIMED, PROCESSING -> SUCCESS; fail: CLAIMED, PROCESSING -> RETRIABLE_FAILURE;
--          fail for good: CLAIMED, PROCESSING -> FATAL_FAILURE; stop: CLAIMED, PROCESSING -> CANCELLED;
--          cut: CLAIMED, PROCESSING -> ENQUEUED; put off, misfit, hold back: CLAIMED, PROCESSING -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, then per run: id, counter, nonce, outcome, result, encoding, error, retry in, ran ("" = its body was
--          never called: no attempt is counted), ended ago, log ("" = none is kept; see kept_log.lua)
--          outcome: 1 succeeded, 2 failed, 3 failed fatally, 4 timed out, 5 stopped, 6 handed back, 7 misfit: its result is the digest
--          of the signature that the payload does not fit, and behind a space for how long it may fit nobody, µs. Of a run that others follow, the
--          error of 1, and the result of 2 to 5, is its traceparent ("" = none does)
-- RETURNS  per run 1 recorded (now, or before by the same token), 2 lost; then per queue of which runs ended its name, and how many of
--          its tasks ended as SUCCESS, and as FATAL_FAILURE and CANCELLED where any did
local WHY = {'', 'failed', 'failed_fatal', 'timed_out', 'stopped', 'handed_back', 'misfit'}
local HANDED_BACK, MISFIT = 6, 7
local NULL = 'null'  -- what a run returned that returned nothing
local SAID = 256  -- bytes of a run's error that are kept of it

-- Why a run ended: how, and what it said first; nothing where it succeeded.
local function why_of(outcome, said)
  if outcome == 1 then return '' end
  local line = string.match(said, '^[^\r\n]*')
  if #line > SAID then line = string.gsub(string.sub(line, 1, SAID), '[\192-\255]?[\128-\191]*$', '') .. '…' end
  return WHY[outcome] .. (line ~= '' and ': ' .. line or '')
end

-- A run has not ended its task: `to` NEW, RETRIABLE_FAILURE where it is to wait until `at`, ENQUEUED where it runs again at once. What waits
-- lets go of its permit and its slot, passes its queue's admission anew, and no late copy of a claim finds it. More fields to set may follow.
local function goes_on(P, sets, task, to, at, now, ...)
  local id, queue, waits = task.id, task.queue, to ~= 'ENQUEUED'
  if waits and task.ordering then at = math.max(at, ordering_keys.paused_until(P, task.ordering, id)) end
  moves.move(P, sets, id, queue, task.status, to, at, now, 'e', '', ...)
  if waits then moves.let_go(P, id, queue, task.held, now) end
  if task.watched then ticks.hold(P, sets, id, queue, to, task.watched, at, not waits and task.held or nil, now) end
  if waits then pushing.due(P, queue, at, now) else due_index.visit_by(P, queue, at) end
end

-- What is counted of a queue: runs that ended and those that failed for good, for its lambda's automatic gate; of the runs that ended those of
-- tasks that go on and of tasks that were cancelled; and other tasks that were cancelled. What is left has succeeded: most do, and cost nothing more.
local ENDED, FATAL, GOES_ON, CANCELLED, STOPPED = 1, 2, 3, 4, 5

local function count(ends, queue, which)
  local counts = ends[queue]
  if not counts then
    counts = {0}  -- of ENDED, which is all there is where all have succeeded
    ends[queue] = counts
  end
  counts[which] = (counts[which] or 0) + 1
end

-- Says behind the answers how tasks of a queue ended.
local function tell(answer, queue, counts)
  local at = #answer
  answer[at + 1], answer[at + 2] = queue, counts[ENDED]
  if not next(counts, ENDED) then return end
  local fatal, cancelled = counts[FATAL] or 0, counts[CANCELLED] or 0
  answer[at + 2] = counts[ENDED] - fatal - cancelled - (counts[GOES_ON] or 0)
  answer[at + 3], answer[at + 4] = fatal, cancelled + (counts[STOPPED] or 0)
end

local function record_each(sets, P, now, args, answer, ends)
  for i = 2, #args, 11 do
    local id, counter, nonce, outcome = args[i], args[i + 1], args[i + 2], tonumber(args[i + 3])
    local result, encoding, err, retry_in, ran = args[i + 4], args[i + 5], args[i + 6], tonumber(args[i + 7]), args[i + 8] ~= '' and args[i + 8]
    local task, claim = moves.task(P, id, 'c')
    local held_by, run, held_with, owner = moves.claim_of(claim)
    if not moves.holds(task.status, counter, nonce, held_by, held_with) then  -- mutant: finish_without_token
      local before = held_by == counter and held_with == nonce and owner == ''  -- else it was lost, or handed back
      answer[#answer + 1] = before and 1 or 2
    else
      local attempts, runs, lapses, misfit
      -- The only run so far follows no other one: a field that is not there costs most of all to read.
      if run ~= '1' then attempts, runs, lapses, misfit = fields_of(task_key(P, id), 'a', 'R', 'y', 'mf') end
      attempts = tonumber(attempts or 0) + 1
      local counted = ran and outcome ~= HANDED_BACK and outcome ~= MISFIT  -- mutant: counted_run
      if lapses then redis.call('HDEL', task_key(P, id), 'y') end  -- mutant: lapses_not_in_a_row
      if args[i + 10] ~= '' then kept_log.put(P, id, redis.call('HGET', task_key(P, id), 'log'), args[i + 10]) end  -- mutant: log_not_kept
      if misfit and outcome ~= MISFIT then misfits.was_read(P, id, misfit) end
      local traced = outcome == 1 and err or outcome < HANDED_BACK and result or ''
      if traced ~= '' then redis.call('HSET', task_key(P, id), 'tp', traced) end
      local ended = now - tonumber(args[i + 9])
      claim = counter .. ' ' .. run .. ' ' .. nonce  -- of nobody
      runs = record.put(P, id, 'R', run_log.add(record.get(P, id, 'R', runs), owner, ended, ran, attempts, why_of(outcome, err)))
      if not counted and task.flagged then
        moves.end_task(P, sets, task, 'CANCELLED', now, 'c', claim, 'R', runs, 'err', record.put(P, id, 'err', err))
      elseif not counted and outcome == MISFIT then
        local digest, grace = string.match(result, '^(%S+) (%d+)$')
        misfits.back(P, sets, id, task.queue, task.status, digest, retry_in, tonumber(grace), err, task.watched, task.held, now, 'c', claim, 'R', runs)
      elseif not counted then  -- an ordered stop has cut it, or it has handed itself back
        goes_on(P, sets, task, retry_in > 0 and 'NEW' or 'ENQUEUED', now + retry_in, now, 'c', claim, 'R', runs)
      elseif outcome == 1 then
        if encoding ~= '0' then redis.call('HSET', task_key(P, id), 'enc', encoding) end
        local returned = result  -- mutant: wrong_result
        if returned == NULL and encoding == '0' then  -- as of most: it is not kept
          moves.end_task(P, sets, task, 'SUCCESS', now, 'c', claim, 'a', attempts, 'R', runs)
        else
          moves.end_task(P, sets, task, 'SUCCESS', now, 'c', claim, 'a', attempts, 'R', runs, 'res', record.put(P, id, 'res', returned))
        end
        count(ends, task.queue, ENDED)
      else
        local last = outcome == 3 or attempts >= run_log.limits(task.limits)
        err = record.put(P, id, 'err', err)
        local to = (task.flagged and 'CANCELLED') or (last and 'FATAL_FAILURE')
        if to then
          moves.end_task(P, sets, task, to, now, 'c', claim, 'a', attempts, 'R', runs, 'err', err)
        else
          local retry_at = now + retry_in  -- mutant: no_backoff
          if task.ordering then ordering_keys.pause_target(P, task.ordering, id, now) end
          goes_on(P, sets, task, 'RETRIABLE_FAILURE', retry_at, now, 'c', claim, 'a', attempts, 'R', runs, 'err', err)
        end
        count(ends, task.queue, ENDED)
        count(ends, task.queue, to == 'FATAL_FAILURE' and FATAL or to and CANCELLED or GOES_ON)
      end
      answer[#answer + 1] = 1
    end
  end
end

register('set_results', {'allow-oom'}, pushing.around(function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer, ends = {}, {}
  writes.gather((#args - 1) / 11, record_each, P, now, args, answer, ends)
  for queue, counts in pairs(ends) do tell(answer, queue, counts) end
  if next(ends) and tonumber(redis.call('HGET', P, 'watched') or 0) <= 0 then return answer end  -- mostly: one call for all lambdas
  for queue, counts in pairs(ends) do
    if counts[ENDED] > 0 then run_ends.count(P, lambda_of(queue), counts[ENDED], counts[FATAL] or 0, now) end
  end
  return answer
end))
