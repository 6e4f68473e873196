-- Claiming: an id that came out of a queue becomes an executor's, or is found not to be claimable. And what an ask has claimed.
--
-- An ask is one call of an executor for work, known by its nonce: what it claims bears that. What it claimed here is remembered for two heartbeat
-- timeouts, so that a call whose answer was lost can be repeated, and so that claims which nobody will take can be handed back.

claiming.GIVEN_UP = '-'  -- what is remembered of an ask that nobody takes the answers of: it claims nothing any more

local call = {}  -- one for all calls: to make it costs as much as a command. No field of it is ever nil: to set one to nil makes it anew each time

-- What a call gives claims by. `bytes`: what the specs and their overhead may come to; with `any_size` a first one that is larger is given alone.
function claiming.prepare(now, timeout, signatures, bytes, any_size)
  call.now, call.timeout, call.signatures, call.bytes, call.any_size = now, timeout, signatures, bytes, any_size
  call.kept, call.alive, call.traces, call.queue, call.leased, claiming.begun, claiming.refusal = false, false, false, false, false, false, false
end

-- Begins to give claims. `gated`: whether any lambda here has gates that look at single tasks; `logs`: whether any says of which runs the log is kept.
function claiming.begin(gated, logs)
  call.gates, call.logs, claiming.begun = gated and {}, logs and {}, true
end

-- How who asks is known: the server's run id, what it remembers (see store_clock.note_server), and its name on the roster.
function claiming.by(server, memory, name) call.server, call.memory, call.name = server, memory, name end

-- Whether claims are given; else claiming.refusal is the answer to the call. That is looked up where anything was found: a call that comes too
-- late finds nothing.
function claiming.gives(P)
  if claiming.begun then return true end
  if claiming.refusal then return false end
  local pause, gated, clock, logged, stepped = store_clock.note_server(P, call.server, call.memory, call.now, call.timeout, 'logged')
  call.last = roster.last(P, call.name)
  if not call.last then
    claiming.refusal = {'unlisted'}
    return false
  end
  store_clock.note(P, call.now, clock, store_clock.NOTED)
  if pause then
    claiming.refusal = {'paused', unpack(roster.pause(P, call.now))}
    return false
  end
  claiming.begin(gated, tonumber(logged or 0) > 0)
  -- No claim's number is below how far TIME has ever come: the number of a claim that the store has forgotten may stand there.
  call.from = math.max(call.now, tonumber(clock or 0), tonumber(stepped or 0))
  return true
end

-- The number of a call that has ended, in which claims were given or not; '0' where nothing was found.
function claiming.number(P, given)
  if not claiming.begun then return '0' end
  return given and roster.count(P, call.name, call.last, call.now) or fmt(call.last)
end

-- A task of a queue has a new lease. The queue's next visit may be later than its end: its enqueue timeout may be long, its lambda paused.
local function note_lease(queue)
  if call.queue == queue then return end
  if not call.queue then
    call.queue = queue
    return
  end
  call.leased = call.leased or {[call.queue] = call.now + call.timeout}
  call.leased[queue] = call.now + call.timeout
end

-- Ends it.
function claiming.finish(P)
  if call.kept then
    for name, each in pairs(call.kept) do parking.note(P, name, each) end
  end
  if call.leased then
    due_index.visit_all_by(P, call.leased)
  elseif call.queue then
    due_index.visit_by(P, call.queue, call.now + call.timeout)
  end
end

-- Keeps a task that was pushed before a gate was set: that gate looks at it now. `call.gates`: those of lambdas as they were read in this call,
-- since they may be long; `call.kept`, by lambda: what was kept in it.
local function kept_at_claim(P, sets, id, queue)
  local name = lambda_of(queue)
  call.gates[name] = call.gates[name] or gate_rules.of(redis.call('HGET', lambda_key(P, name), 'gates') or '')
  local gates = call.gates[name]
  if #gates == 0 then return false end
  local task, delayed, labels = moves.task(P, id, 'gd', 'lb')
  local gate, newest = gate_rules.keeper(gates, id, labels, tonumber(delayed or 0))
  if not gate then return false end
  call.kept = call.kept or {}
  call.kept[name] = call.kept[name] or parking.none()
  parking.park(P, sets, call.kept[name], task, gate, newest, call.now)
  return true
end

-- Whether a task that did not fit every executor is left to others, since it does not fit this one. `call.alive`: see misfits.refused.
local function unfit(P, sets, id, queue, text)
  local _, stop = string.find(call.signatures, ' ' .. lambda_of(queue) .. '=', 1, true)
  local digest = stop and string.match(call.signatures, '^%S+', stop + 1)
  call.alive = call.alive or {}
  return digest and misfits.refused(P, sets, id, queue, text, digest, call.now, call.alive)
end

-- Of which runs of a lambda the log is kept, where it says so.
local function logs_of(P, queue)
  local name = lambda_of(queue)
  if call.logs[name] == nil then call.logs[name] = registry.settings(P, name).logs or false end
  return call.logs[name] or nil
end

-- A claim as it is answered: {whose, id, counter, spec, scheduled at}, and where it is not the task's first run attempt, run, losses and alone
-- behind that; and last, where the lambda says so, of which runs the log is kept.
local function entry_of(P, whose, id, queue, counter, spec, scheduled_at, run, attempts, losses, alone)
  if string.find(id, '.', 1, true) then
    call.traces = call.traces or {}
    spec = batch_parts.with_trace(P, id, spec, call.traces)
  end
  local logs = call.logs and logs_of(P, queue) or nil
  if run == 1 then return {whose, id, counter, spec, scheduled_at, logs} end
  return {whose, id, counter, spec, scheduled_at, tonumber(attempts or 0) + 1, run, tonumber(losses or 0), tonumber(alone or 0), logs}
end

-- ENQUEUED -> CLAIMED, or what a gate or a misfit makes of it. Returns the claim's entry, which begins with `whose`, and the queue; false: it is not
-- claimable, and was not to stand in a queue; nil: it was left as it was, for the bytes.
function claiming.give(P, sets, whose, id, owner, nonce)
  local now = call.now
  local status, queue, spec, scheduled_at, claim = fields_of(task_key(P, id), 's', 'q', 'spec', 'at', 'c')
  if status ~= 'ENQUEUED' then return false end  -- mutant: claim_of_what_is_held
  if spec == record.APART then spec = record.get(P, id, 'spec', spec) end
  local weight = #spec + CLAIM_OVERHEAD
  if weight > call.bytes and not call.any_size then return nil end
  call.bytes, call.any_size = call.bytes - weight, false  -- also of what a gate keeps: to read it is what takes time
  local counter, run = moves.claim_of(claim)
  counter, run = tonumber(counter or 0), tonumber(run or 0)
  local attempts, losses, alone, misfit
  -- The first run has nothing behind it: a field that is not there costs most of all to read.
  if run ~= 0 then attempts, losses, alone, misfit = fields_of(task_key(P, id), 'a', 'l', 'z', 'mf') end
  if call.gates and kept_at_claim(P, sets, id, queue) then return false end  -- mutant: no_gate_at_the_claim
  if misfit and unfit(P, sets, id, queue, misfit) then return false end  -- mutant: misfit_offered_again
  counter, run = math.max(counter + 1, call.from), run + 1  -- mutant: new_token
  moves.move(P, sets, id, queue, 'ENQUEUED', 'CLAIMED', now + call.timeout, now, 'c', fmt(counter) .. ' ' .. fmt(run) .. ' ' .. nonce .. ' ' .. owner)
  note_lease(queue)
  return entry_of(P, whose, id, queue, counter, spec, scheduled_at, run, attempts, losses, alone), queue
end

-- The same again of a task that is CLAIMED by this very ask, with a new lease.
local function again(P, whose, id, owner, nonce)
  local status, queue, spec, scheduled_at, claim = fields_of(task_key(P, id), 's', 'q', 'spec', 'at', 'c')
  local counter, run, held_with, held_by = moves.claim_of(claim)
  if status ~= 'CLAIMED' or held_by ~= owner or held_with ~= nonce then return false end
  if spec == record.APART then spec = record.get(P, id, 'spec', spec) end
  local weight = #spec + CLAIM_OVERHEAD
  if weight > call.bytes and not call.any_size then return nil end
  call.bytes, call.any_size = call.bytes - weight, false
  redis.call('ZADD', live_key(P, queue, status), fmt(call.now + call.timeout), id)
  note_lease(queue)
  local attempts, losses, alone = fields_of(task_key(P, id), 'a', 'l', 'z')
  return entry_of(P, whose, id, queue, tonumber(counter), spec, scheduled_at, tonumber(run), attempts, losses, alone), queue
end

-- CLAIMED -> ENQUEUED: it never started, and is pushed again at once; CANCELLED where that was asked for. `claim`: its field `c`.
function claiming.hand_back(P, task, claim, now)
  local id, queue = task.id, task.queue
  local counter, run, nonce, owner = moves.claim_of(claim)
  redis.call('HSET', task_key(P, id), 'c', counter .. ' ' .. tonumber(run) - 1 .. ' ' .. nonce .. ' ' .. owner)
  if task.flagged then
    moves.end_task(P, writes.AT_ONCE, task, 'CANCELLED', now)
  else
    redis.call('HDEL', task_key(P, id), 'e')
    moves.move(P, writes.AT_ONCE, id, queue, 'CLAIMED', 'ENQUEUED', now, now)
    if task.watched then ticks.hold(P, writes.AT_ONCE, id, queue, 'ENQUEUED', task.watched, now, task.held, now) end
    due_index.visit_by(P, queue, now)
  end
end

function claiming.ask_key(P, nonce) return P .. ':ask:' .. nonce end

-- What an ask has claimed here, by its key: the ids with a blank between two; GIVEN_UP; false: nothing.
function claiming.asked(key)
  return redis.call('GET', key)  -- mutant: asked_before
end

function claiming.remember(key, text, timeout)
  redis.call('SET', key, text, 'PX', fmt(math.floor(timeout / 500)))
end

-- The claims that an ask holds here and has not started, with new leases. Adds to `answer` the name of a queue before claims of it. Returns whether
-- there are any.
function claiming.repeated(P, answer, whose, text, owner, nonce)
  local last
  for id in string.gmatch(text, '%S+') do
    local entry, queue = again(P, whose, id, owner, nonce)
    if entry then
      if queue ~= last then answer[#answer + 1], last = queue, queue end
      answer[#answer + 1] = entry
    end
  end
  return last ~= nil
end
