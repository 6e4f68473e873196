-- claim: gives tasks to an executor, each with a new token. What a gate keeps, or what does not fit the executor's signature,
--        leaves the queue instead.
-- MOVES    claim: ENQUEUED -> CLAIMED; park, leave to others: ENQUEUED -> NEW; drop: ENQUEUED -> CANCELLED
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), what it remembers (see store_clock.note_server), the caller's name on the roster, owner, nonce,
--          heartbeat timeout, bytes at most, 1 = the first task may be larger than that, signatures that the owner runs ("lambda=digest
--          lambda=digest ...", with a space before each), then the ids
-- RETURNS  {"unlisted"} = the name is not on the roster; {"paused", then as of `claim_pauses`} while no claims are given; else per id {id, counter, spec,
--          attempt, run, losses, at, alone, queue, of which runs the log is kept (only where the lambda says so)}, {id} = lost, {id, ""} = left as it was, for
--          the bytes; and then the call's number

-- Keeps a task that was pushed before a gate was set: that gate looks at it now. By lambda: `known`, the gates as they were read in this
-- call, since they may be long; `kept`, what was kept in it.
local function kept_at_claim(P, sets, known, kept, id, queue, now)
  local name = lambda_of(queue)
  known[name] = known[name] or gate_rules.of(redis.call('HGET', lambda_key(P, name), 'gates') or '')
  local gates = known[name]
  if #gates == 0 then return false end
  local task, delayed, labels = moves.task(P, id, 'gd', 'lb')
  local gate, newest = gate_rules.keeper(gates, id, labels, tonumber(delayed or 0))
  if not gate then return false end
  kept[name] = kept[name] or parking.none()
  parking.park(P, sets, kept[name], task, gate, newest, now)
  return true
end

-- Whether a task that did not fit every executor is left to others, since it does not fit this one. `alive`: see misfits.refused.
local function unfit(P, sets, id, queue, text, signatures, now, alive)
  local _, stop = string.find(signatures, ' ' .. lambda_of(queue) .. '=', 1, true)
  local digest = stop and string.match(signatures, '^%S+', stop + 1)
  return digest and misfits.refused(P, sets, id, queue, text, digest, now, alive)
end

-- Of which runs of a lambda the log is kept, where it says so. `logs`: the lambdas of this call; nil: none here says so.
local function logs_of(P, queue, logs)
  if not logs then return nil end
  local name = lambda_of(queue)
  if logs[name] == nil then logs[name] = registry.settings(P, name).logs or false end
  return logs[name] or nil
end

-- `known`: the gates of lambdas as they were read; false: no lambda here has any.
local function give_each(sets, P, now, args, answer, leased, known, kept, logs)
  local timeout, owner, nonce, bytes, any_size = tonumber(args[7]), args[5], args[6], tonumber(args[8]), args[9] == '1'
  local full, signatures, alive, traces = false, args[10], {}, {}
  for i = 11, #args do
    local id = args[i]
    local status, queue, spec, scheduled_at, claim, attempts, losses, alone, misfit
    if not full then status, queue, spec, scheduled_at, claim = fields_of(task_key(P, id), 's', 'q', 'spec', 'at', 'c') end
    local counter, run, held_by = moves.claim_of(claim)
    local again = status == 'CLAIMED' and held_by == owner and redis.call('HGET', task_key(P, id), 'n') == nonce  -- by this very call, once more
    if spec == record.APART and (status == 'ENQUEUED' or again) then spec = record.get(P, id, 'spec', spec) end
    if full then
      answer[#answer + 1] = {id, ''}  -- unseen: reading specs that are not given would take as long as giving them
    elseif status ~= 'ENQUEUED' and not again then  -- mutant: claim_of_what_is_held
      answer[#answer + 1] = {id}
    elseif #spec + CLAIM_OVERHEAD > bytes and not any_size then
      answer[#answer + 1] = {id, ''}
      full = true  -- what comes after it is not given before it
    else
      bytes, any_size = bytes - #spec - CLAIM_OVERHEAD, false  -- also of what a gate keeps: to read it is what takes time
      counter, run = tonumber(counter or 0), tonumber(run or 0)
      -- The first run has nothing behind it: a field that is not there costs most of all to read.
      if run ~= (again and 1 or 0) then attempts, losses, alone, misfit = fields_of(task_key(P, id), 'a', 'l', 'z', 'mf') end
      if known and not again and kept_at_claim(P, sets, known, kept, id, queue, now) then  -- mutant: no_gate_at_the_claim
        answer[#answer + 1] = {id}
      elseif misfit and not again and unfit(P, sets, id, queue, misfit, signatures, now, alive) then  -- mutant: misfit_offered_again
        answer[#answer + 1] = {id}
      else
        if not again then
          counter, run = math.max(counter + 1, now), run + 1  -- mutant: new_token
          moves.move(P, sets, id, queue, 'ENQUEUED', 'CLAIMED', now + timeout, now, 'c', fmt(counter) .. ' ' .. run .. ' ' .. owner, 'n', nonce)
          leased[queue] = now + timeout
        end
        local attempt = fmt(tonumber(attempts or 0) + 1)
        if string.find(id, '.', 1, true) then spec = batch_parts.with_trace(P, id, spec, traces) end
        answer[#answer + 1] = {id, fmt(counter), spec, attempt, fmt(run), losses or '0', scheduled_at, alone or '0', queue, logs_of(P, queue, logs)}
      end
    end
  end
end

register('claim', {'allow-oom'}, function(keys, args)
  local P, now, timeout = keys[1], instant(args[1]), tonumber(args[7])
  local pause, gated, clock, logged = store_clock.note_server(P, args[2], args[3], now, timeout, 'logged')
  local logs = tonumber(logged or 0) > 0 and {} or nil
  local last = roster.last(P, args[4])
  if not last then return {'unlisted'} end
  store_clock.note(P, now, clock, store_clock.NOTED)
  if pause then return {'paused', unpack(roster.pause(P, now))} end

  local answer, leased, kept = {}, {}, {}
  writes.gather(#args - 10, give_each, P, now, args, answer, leased, gated and {}, kept, logs)
  for name, each in pairs(kept) do parking.note(P, name, each) end
  -- the queue's next visit may be later than the lease's end: its enqueue timeout may be long, its lambda paused
  due_index.visit_all_by(P, leased)
  local gives = false
  for _, each in ipairs(answer) do gives = gives or #each > 2 end  -- also once more: the call before may have been somebody else's
  answer[#answer + 1] = gives and roster.count(P, args[4], last, now) or fmt(last)
  return answer
end)
