-- Misfits: tasks whose payload does not fit the signature that an executor runs. Another release's may fit, so nothing is counted: the
-- task bears the digests that it does not fit (its field `mf`), and no executor with one of these is given it again.
--
-- It waits as NEW, like a task that is due later. When its instant comes and live executors run another signature of its lambda, it is
-- pushed, but not onto its queue: it stands in a set beside it, with all that do not fit the same signatures, from which those take that
-- run another one (taking.lua). So nobody takes it in vain, and what stands in the queue waits for none of it. Where nobody runs
-- another signature it is looked at again after a while, which doubles; once its time of grace is over that is a failed attempt. The time of
-- grace counts from when the last executors were gone that it might fit, however long it stood beside its queue for them.

-- The sets that hold something, "<queue> <digest>,<digest>"; and such a set.
misfits.sets_key = remembered(function(P) return P .. ':misfits' end)
local set_key = remembered(function(P, name) return P .. ':m:' .. name end)

-- The field mf: since when it fits nobody (0: it has been read since), how long that may last, the wait before its next attempt and before
-- the next look (0: somebody was there that it might fit, so what comes begins anew), µs; when the payload was accepted; the digests, in the order of their names.
function misfits.read(text)
  local since, grace, retry, wait, made, digests = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  return {since = tonumber(since), grace = tonumber(grace), retry = tonumber(retry), wait = tonumber(wait), made = tonumber(made), digests = digests}
end

local function text_of(m)
  return fmt(m.since) .. ' ' .. fmt(m.grace) .. ' ' .. fmt(m.retry) .. ' ' .. fmt(m.wait) .. ' ' .. fmt(m.made) .. ' ' .. m.digests
end

function misfits.has(digests, digest) return string.find(',' .. digests .. ',', ',' .. digest .. ',', 1, true) ~= nil end

-- The digests of the signatures of a lambda that live executors run, of the pool that it is given to.
function misfits.alive(P, name, now)
  local of = (registry.settings(P, name).pool or '') .. ' ' .. name
  return liveness.signatures(P, of, redis.call('HGET', P .. ':signatures', of), now)
end

-- Whether somebody runs a signature that a task has not met. `alive`: of the lambda, where it was asked for before in this call.
local function some_other(digests, alive)
  for _, digest in ipairs(alive) do
    if not misfits.has(digests, digest) then return true end  -- mutant: misfit_fails_beside_one_that_fits
  end
  return false
end

local function alive_of(P, name, now, known)
  known[name] = known[name] or misfits.alive(P, name, now)
  return known[name]
end

-- Whether pushes of a lambda have to look for such tasks: some were there lately. One that is pushed without a look comes back from its claim.
function misfits.lately(noted, now) return tonumber(noted or 0) > now end
local function note_lambda(P, name, now) redis.call('HSET', lambda_key(P, name), 'mis', fmt(now + misfits.LATELY)) end

-- Such a set has lost tasks.
local function forget_empty(P, name)
  if redis.call('EXISTS', set_key(P, name)) == 0 then redis.call('SREM', misfits.sets_key(P, ''), name) end
end

-- A task out of the set in which it stands.
function misfits.leave(P, id, queue, m)
  local name = queue .. ' ' .. m.digests
  redis.call('ZREM', set_key(P, name), id)
  forget_empty(P, name)
end

-- ... and into it, while somebody is there that it might fit.
function misfits.join(P, id, queue, m, now)
  local name = queue .. ' ' .. m.digests
  if m.wait > 0 then
    m.wait = 0
    redis.call('HSET', task_key(P, id), 'mf', text_of(m))
  end
  redis.call('ZADD', set_key(P, name), 'NX', fmt(now), id)
  redis.call('SADD', misfits.sets_key(P, ''), name)
end

-- It fits nobody from now on, unless that was so before.
local function begin(m, now)
  if m.since == 0 or m.wait == 0 then m.since, m.wait = now, misfits.FIRST end  -- mutant: misfit_grace_begins_beside_one_that_fits
end

-- What it has not been pushed for is scored anew: at once, in its old place, where somebody may have another signature.
local function wait_on(P, id, m, now, other)
  local at = other and math.min(tonumber(redis.call('HGET', task_key(P, id), 'at') or now), now) or now + m.wait
  if not other then m.wait = math.min(m.wait * 2, misfits.MOST) end  -- mutant: misfit_looked_at_too_often
  return at
end

-- The digests of a task with one more. Where they are too many, those are forgotten first that nobody runs: one that is forgotten and runs is
-- offered the task again at once.
local function with_digest(digests, digest, alive)
  local kept, runs = {digest}, table.concat(alive, ',')
  for _, wanted in ipairs({true, false}) do
    for each in string.gmatch(digests, '[^,]+') do
      if each ~= digest and misfits.has(runs, each) == wanted and #kept < misfits.KEPT then kept[#kept + 1] = each end
    end
  end
  table.sort(kept)
  return table.concat(kept, ',')
end

-- CLAIMED, PROCESSING -> NEW: a payload does not fit `digest`. `watched`, `held`: its fields w and h. More fields to set may follow.
function misfits.back(P, sets, id, queue, status, digest, retry, grace, err, watched, held, now, ...)
  local name = lambda_of(queue)
  local misfit, accepted, scheduled_at = fields_of(task_key(P, id), 'mf', 't1', 'at')
  local alive = misfits.alive(P, name, now)
  -- One that was put off has become NEW once more since it was accepted; one with a delay is due only later.
  local made = math.min(tonumber(accepted or now), tonumber(scheduled_at or now))
  local m = misfit and misfits.read(misfit) or {made = made, digests = ''}
  m.digests, m.grace, m.retry = with_digest(m.digests, digest, alive), grace, retry
  m.since, m.wait = now, misfits.FIRST  -- until now it might have fitted this one
  local at = wait_on(P, id, m, now, some_other(m.digests, alive))
  moves.move(P, sets, id, queue, status, 'NEW', at, now, 'e', '', 'mf', text_of(m), 'me', record.put(P, id, 'me', err), ...)
  moves.let_go(P, id, queue, held, now)
  if watched then ticks.hold(P, sets, id, queue, 'NEW', watched, at, nil, now) end
  note_lambda(P, name, now)
  due_index.visit_by(P, queue, at)
end

-- ENQUEUED -> NEW: it was taken for an executor that it does not fit, or those have gone that it might fit.
function misfits.leave_to_others(P, sets, id, queue, m, now, other)
  begin(m, now)
  local at = wait_on(P, id, m, now, other)
  local held, watched = fields_of(task_key(P, id), 'h', 'w')
  misfits.leave(P, id, queue, m)
  moves.move(P, sets, id, queue, 'ENQUEUED', 'NEW', at, now, 'e', '', 'mf', text_of(m))
  moves.let_go(P, id, queue, held, now)
  if watched then ticks.hold(P, sets, id, queue, 'NEW', watched, at, nil, now) end
  note_lambda(P, lambda_of(queue), now)
  due_index.visit_by(P, queue, at)
end

-- At a claim: whether it is left to others, since it does not fit the signature `digest` of the executor that it would be given to.
function misfits.refused(P, sets, id, queue, text, digest, now, known)
  local m = misfits.read(text)
  if not misfits.has(m.digests, digest) then return false end
  misfits.leave_to_others(P, sets, id, queue, m, now, some_other(m.digests, alive_of(P, lambda_of(queue), now, known)))
  return true
end

-- A run has ended otherwise: the payload was read, and what may come later begins anew.
function misfits.was_read(P, id, text)
  local m = misfits.read(text)
  if m.since == 0 then return end
  m.since = 0
  redis.call('HSET', task_key(P, id), 'mf', text_of(m))
end

local function span(us)
  local seconds = math.max(math.floor(us / 1000000), 0)
  for _, unit in ipairs({{86400, 'd'}, {3600, 'h'}, {60, 'min'}}) do
    if seconds >= 2 * unit[1] then return math.floor(seconds / unit[1]) .. ' ' .. unit[2] end
  end
  return seconds .. ' s'
end

-- NEW, RETRIABLE_FAILURE -> RETRIABLE_FAILURE, or with no attempts left FATAL_FAILURE: its time of grace is over.
local function fail(P, id, queue, status, m, alive, now)
  local task, attempts, said = moves.task(P, id, 'a', 'me')
  local ordering, most = task.ordering, run_log.limits(task.limits)
  attempts = tonumber(attempts or 0) + 1
  local err = (record.get(P, id, 'me', said) or 'the payload does not fit') .. '. The payload is ' .. span(now - m.made) .. ' old, and for ' .. span(now - m.since)
    .. ' no executor was there that it fits. It does not fit the signatures ' .. string.gsub(m.digests, ',', ', ') .. '; '
    .. (#alive > 0 and table.concat(alive, ', ') .. (#alive > 1 and ' run now' or ' runs now') or 'none of its lambda runs now')
  err = record.put(P, id, 'err', err)
  local last = attempts >= most
  if last then
    moves.end_task(P, writes.AT_ONCE, task, 'FATAL_FAILURE', now, 'a', attempts, 'err', err)
  else
    local at = now + m.retry
    if ordering then
      ordering_keys.pause_target(P, ordering, id, now)
      at = math.max(at, ordering_keys.paused_until(P, ordering, id))
    end
    m.retry = math.min(math.max(m.retry, 1) * 2, math.max(m.retry, misfits.MOST_RETRY))
    moves.move(P, writes.AT_ONCE, id, queue, status, 'RETRIABLE_FAILURE', at, now, 'a', attempts, 'err', err, 'mf', text_of(m))
    moves.let_go(P, id, queue, task.held, now)
    due_index.visit_by(P, queue, at)
  end
  misfits.failed[#misfits.failed + 1] = id
  run_ends.count(P, lambda_of(queue), 1, last and 1 or 0, now)
end

-- Of due tasks, those that may be pushed; and by id, of which of them that is beside the queue, the field mf. The others were dealt with.
function misfits.sift(P, queue, status, ids, now)
  local left, apart, alive, known = {}, {}, nil, {}
  for _, id in ipairs(ids) do
    local text = redis.call('HGET', task_key(P, id), 'mf')
    if not text then
      left[#left + 1] = id
    else
      local m = misfits.read(text)
      alive = alive or alive_of(P, lambda_of(queue), now, known)
      if some_other(m.digests, alive) then
        left[#left + 1], apart[id] = id, m
      else
        begin(m, now)
        if now >= m.since + m.grace then  -- mutant: grace_over
          fail(P, id, queue, status, m, alive, now)
        else
          local at = wait_on(P, id, m, now, false)
          redis.call('ZADD', live_key(P, queue, status), fmt(math.min(at, math.max(m.since + m.grace, now))), id)
          redis.call('HSET', task_key(P, id), 'mf', text_of(m))
        end
      end
    end
  end
  return left, apart
end

-- Until when one stands beside its queue before it is looked at: also where the enqueue timeout is long, those that it might fit may go.
function misfits.stands(expires, now) return math.min(expires, now + misfits.MOST) end

-- One that is ENQUEUED and expired. Returns what became of it: 'left', 'standing' where it stands where it was put, 'again' where it was put
-- there again.
function misfits.look(P, id, queue, text, expires, now)
  local m = misfits.read(text)
  if not some_other(m.digests, misfits.alive(P, lambda_of(queue), now)) then
    misfits.leave_to_others(P, writes.AT_ONCE, id, queue, m, now, false)
    return 'left'
  end
  local stood = redis.call('ZSCORE', set_key(P, queue .. ' ' .. m.digests), id)
  redis.call('ZADD', live_key(P, queue, 'ENQUEUED'), fmt(misfits.stands(expires, now)), id)
  misfits.join(P, id, queue, m, now)
  return stood and 'standing' or 'again'
end

-- The names of the sets that hold something: for executors that have another signature.
function misfits.apart(P)
  if redis.call('EXISTS', misfits.sets_key(P, '')) == 0 then return NOTHING end
  return redis.call('SMEMBERS', misfits.sets_key(P, ''))
end

-- The sets from which executors of a pool with these signatures may take (" lambda=digest lambda=digest ..."): their names, queues and lengths.
function misfits.fitting(P, signatures, pool)
  local found = {}
  for _, name in ipairs(misfits.apart(P)) do
    local queue, digests = string.match(name, '^(%S+) (%S+)$')
    local _, stop = string.find(signatures, ' ' .. lambda_of(queue) .. '=', 1, true)
    local digest = stop and string.match(signatures, '^%S+', stop + 1)
    if digest and not misfits.has(digests, digest) and registry.gives_to(P, lambda_of(queue), pool) then  -- mutant: misfit_given_to_any
      found[#found + 1] = {name = name, queue = queue, length = redis.call('ZCARD', set_key(P, name)), gets = 0}
    end
  end
  return found
end

-- Some of such a set, those that have stood there longest: `count` of them behind the first `from`.
function misfits.stand(P, name, from, count) return redis.call('ZRANGE', set_key(P, name), from, from + count - 1) end

-- Takes these out of it.
function misfits.taken(P, name, ids)
  if #ids > 0 then redis.call('ZREM', set_key(P, name), unpack(ids)) end
  forget_empty(P, name)
end

-- Strikes off those that have ended where they stood: of each set the first few, now and then.
function misfits.tidy(P)
  for _, name in ipairs(misfits.apart(P)) do
    for _, id in ipairs(redis.call('ZRANGE', set_key(P, name), 0, misfits.TIDIED - 1)) do
      if redis.call('HGET', task_key(P, id), 's') ~= 'ENQUEUED' then redis.call('ZREM', set_key(P, name), id) end
    end
    forget_empty(P, name)
  end
end
