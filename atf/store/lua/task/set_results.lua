-- set_results: CLAIMED, PROCESSING (same token) -> SUCCESS; RETRIABLE_FAILURE or, with no attempts left, FATAL_FAILURE;
--              FATAL_FAILURE by the lambda's word; CANCELLED where that was asked for, unless it succeeded;
--              handed back -> ENQUEUED, to be pushed again at once, or NEW, to be pushed again after the wait; a misfit -> NEW, see misfits.lua.
--              These two count no attempt
-- KEYS[1]  the partition's record
-- ARGV     now, then per run: id, counter, nonce, outcome, result, encoding, error, retry in, ran ("" = its body was
--          never called: no attempt is counted), ended ago
--          outcome: 1 succeeded, 2 failed, 3 failed fatally, 4 timed out, 5 stopped, 6 handed back, 7 misfit: its result is the digest
--          of the signature that the payload does not fit, and behind a space for how long it may fit nobody, µs
-- RETURNS  per run 1 recorded (now, or before by the same token), 2 lost
local WHY = {'succeeded', 'failed', 'failed_fatal', 'timed_out', 'stopped', 'handed_back', 'misfit'}
local HANDED_BACK, MISFIT = 6, 7
local SAID = 256  -- bytes of a run's error that are kept of it

-- Why a run ended: how, and what it said first.
local function why_of(outcome, said)
  local line = outcome ~= 1 and string.match(said, '^[^\r\n]*') or ''
  if #line > SAID then line = string.gsub(string.sub(line, 1, SAID), '[\192-\255]?[\128-\191]*$', '') .. '…' end
  return WHY[outcome] .. (line ~= '' and ': ' .. line or '')
end

-- An ordered stop has cut the run, or the run has handed itself back. What runs again at once keeps what it holds, as after a loss. What
-- has to wait is NEW: it lets go of its permit and its slot, passes its queue's door anew, and no late copy of a claim finds it.
local function run_again(P, sets, id, queue, status, wait, ordering, watched, held, now, ...)
  local at = now + wait
  if wait > 0 and ordering then at = math.max(at, ordering_keys.paused_until(P, ordering, id)) end
  moves.move(P, sets, id, queue, status, wait > 0 and 'NEW' or 'ENQUEUED', at, now, 'e', '', 'o', '', ...)
  if wait > 0 then moves.let_go(P, id, queue, held, now) end
  if watched then ticks.hold(P, sets, id, queue, wait > 0 and 'NEW' or 'ENQUEUED', watched, at, wait == 0 and held or nil, now) end
  due_index.visit_by(P, queue, at)
end

local function record_each(sets, P, now, args, answer, ends)
  for i = 2, #args, 10 do
    local id, counter, nonce, outcome = args[i], args[i + 1], args[i + 2], tonumber(args[i + 3])
    local task = redis.call('HMGET', task_key(P, id), 's', 'c', 'n', 'q', 'o', 'r', 'lim', 'x', 'k', 'w', 'h')
    local status, queue, limits, flagged = task[1], task[4], task[7], task[8]
    if not moves.holds(status, counter, nonce, task[2], task[3]) then  -- mutant: finish_without_token
      local before = task[3] == nonce and redis.call('HGET', task_key(P, id), 'f') == counter
      answer[#answer + 1] = before and 1 or 2
    else
      -- The only run so far follows no other one: a field that is not there costs most of all to read.
      local earlier = task[6] == '1' and NOTHING or redis.call('HMGET', task_key(P, id), 'a', 'R', 'y', 'mf')
      local attempts, ran = tonumber(earlier[1] or 0) + 1, tonumber(args[i + 8])
      local counted = ran and outcome ~= HANDED_BACK and outcome ~= MISFIT  -- mutant: counted_run
      if earlier[3] then redis.call('HDEL', task_key(P, id), 'y') end  -- mutant: lapses_not_in_a_row
      if earlier[4] and outcome ~= MISFIT then misfits.was_read(P, id, earlier[4]) end
      local ended = now - tonumber(args[i + 9])
      local runs = run_log.add(earlier[2], task[5] or '', ran and ended - ran or 0, ended, attempts, why_of(outcome, args[i + 6]))
      if not counted then
        if flagged then
          moves.end_task(P, sets, id, queue, status, 'CANCELLED', now, limits, task[9], task[10], flagged, task[11],
            'f', counter, 'R', runs, 'err', args[i + 6])
        elseif outcome == MISFIT then
          local digest, grace = string.match(args[i + 4], '^(%S+) (%d+)$')
          misfits.back(P, sets, id, queue, status, digest, tonumber(args[i + 7]), tonumber(grace), args[i + 6], task[10],
            task[11], now, 'f', counter, 'R', runs)
        else
          run_again(P, sets, id, queue, status, tonumber(args[i + 7]), task[9], task[10], task[11], now, 'f', counter, 'R', runs)
        end
      elseif outcome == 1 then
        if args[i + 5] ~= '0' then redis.call('HSET', task_key(P, id), 'enc', args[i + 5]) end
        moves.end_task(P, sets, id, queue, status, 'SUCCESS', now, limits, task[9], task[10], flagged, task[11],
          'f', counter, 'a', attempts, 'R', runs, 'res', args[i + 4])  -- mutant: wrong_result
      elseif flagged or outcome == 3 or attempts >= tonumber(string.match(limits or DEFAULT_LIMITS, '^%d+')) then
        moves.end_task(P, sets, id, queue, status, flagged and 'CANCELLED' or 'FATAL_FAILURE', now, limits, task[9], task[10], flagged, task[11],
          'f', counter, 'a', attempts, 'R', runs, 'err', args[i + 6])
      else
        local retry_at = now + tonumber(args[i + 7])  -- mutant: no_backoff
        if task[9] then
          ordering_keys.pause_target(P, task[9], id, now)
          retry_at = math.max(retry_at, ordering_keys.paused_until(P, task[9], id))
        end
        moves.move(P, sets, id, queue, status, 'RETRIABLE_FAILURE', retry_at, now,
          'e', '', 'o', '', 'f', counter, 'a', attempts, 'R', runs, 'err', args[i + 6])
        moves.let_go(P, id, queue, task[11], now)
        if task[10] then ticks.hold(P, sets, id, queue, 'RETRIABLE_FAILURE', task[10], retry_at, nil, now) end
        due_index.visit_by(P, queue, retry_at)
      end
      if counted then  -- else it says nothing of the lambda
        local count = ends[queue] or {0, 0}
        count[1] = count[1] + 1
        if outcome ~= 1 and not flagged and (outcome == 3 or attempts >= tonumber(string.match(limits or DEFAULT_LIMITS, '^%d+'))) then
          count[2] = count[2] + 1
        end
        ends[queue] = count
      end
      answer[#answer + 1] = 1
    end
  end
end

register('set_results', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answer, ends = {}, {}
  writes.gather((#args - 1) / 10, record_each, P, now, args, answer, ends)
  if next(ends) and tonumber(redis.call('HGET', P, 'watched') or 0) <= 0 then return answer end  -- mostly: one call for all lambdas
  for queue, count in pairs(ends) do run_ends.count(P, lambda_of(queue), count[1], count[2], now) end
  return answer
end)
