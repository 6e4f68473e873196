-- What gates keep is parked.
--
-- A pause of the whole lambda is also the field `paused`, and its queues are not looked at while it stands. All other gates
-- look at each task once, when it would be pushed, or claimed where it was pushed before. What they keep is parked: it stays in
-- the set of its status, scored as never due, and in the set of what the gate keeps, until that is lifted, ends or lets it go.
-- Nobody looks at it meanwhile. The index `gates` says when a lambda's gates must be looked at, as the due index does of queues.

parking.key = remembered(function(P, name, number) return P .. ':g:' .. name .. ':' .. number end)

-- Keeps a task of a batch back: NEW, RETRIABLE_FAILURE -> the same, parked; ENQUEUED -> NEW, parked; or all of them -> CANCELLED.
-- `task`: see moves.task. `kept` counts, for parking.note.
function parking.park(P, sets, kept, task, gate, newest, now)
  local id, queue, from = task.id, task.queue, task.status
  local name = lambda_of(queue)
  kept.count = kept.count + 1
  if gate.action == 'drop' then
    moves.end_task(P, sets, task, 'CANCELLED', now, 'err', record.put(P, id, 'err', 'dropped by gate ' .. fmt(gate.number) .. ' of ' .. name))
    kept.dropped[gate.number] = (kept.dropped[gate.number] or 0) + 1
    return
  end
  local to, at = from, gate.action == 'delay' and now + gate.amount or now
  wait_notes.park(P, id, from, now)
  if from == 'ENQUEUED' then
    to = 'NEW'  -- it passes its queue's admission anew
    sets.ZREM(live_key(P, queue, from), id)  -- mutant: gate_leaves_a_place_behind
    redis.call('HDEL', task_key(P, id), 'e')
    redis.call('HSET', task_key(P, id), 's', to, MOVED[to], fmt(now), 'g', fmt(gate.number), 'gd', fmt(newest))
  else
    redis.call('HSET', task_key(P, id), 'g', fmt(gate.number), 'gd', fmt(newest))
  end
  moves.let_go(P, id, queue, task.held, now)
  sets.ZADD(live_key(P, queue, to), '+inf', id)
  sets.ZADD(parking.key(P, name, fmt(gate.number)), fmt(at), id)
  if gate.action == 'delay' and (not kept.until_ or at < kept.until_) then kept.until_ = at end
end

function parking.none() return {count = 0, dropped = {}} end

function parking.note(P, name, kept)
  for number, count in pairs(kept.dropped) do
    redis.call('HINCRBY', gate_records.tally_key(P, name), fmt(number), count)
    redis.call('HINCRBY', gate_records.tally_key(P, name), 'dropped', count)
  end
  if kept.until_ then gate_records.look_by(P, name, kept.until_) end
end

-- The first stage of admission: ids of due tasks that no gate keeps, and how many were kept. Where labels are long, not all
-- are looked at: the others are left as they are.
function parking.past_gates(P, queue, status, ids, now, text)
  local gates, through, kept, bytes = gate_rules.of(text), {}, parking.none(), 0
  if #gates == 0 then return ids, 0 end
  writes.gather(#ids, function(sets)
    for _, id in ipairs(ids) do
      if bytes > GATE_BYTES then break end
      local task, delayed, labels = moves.task(P, id, 'gd', 'lb')
      bytes = bytes + #(labels or '')
      local gate, newest
      if task.status then gate, newest = gate_rules.keeper(gates, id, labels, tonumber(delayed or 0)) end
      if gate then
        parking.park(P, sets, kept, task, gate, newest, now)
      else
        through[#through + 1] = id
      end
    end
  end)
  parking.note(P, lambda_of(queue), kept)
  return through, kept.count
end

-- Has parked tasks pass on: those that a gate kept which is there no more, or whose delay is over.
local function let_through(P, name, number, ids, now)
  if #ids == 0 then return end
  local queues = {}
  writes.gather(#ids, function(sets)
    for _, id in ipairs(ids) do
      sets.ZREM(parking.key(P, name, number), id)
      local status, queue, gate, scheduled_at, due_at, waited = fields_of(task_key(P, id), 's', 'q', 'g', 'at', 'hd', 'wr')
      local kept = gate == number and (status == 'NEW' or status == 'RETRIABLE_FAILURE')  -- mutant: gate_keeps_for_ever
      if kept then
        redis.call('HDEL', task_key(P, id), 'g')
        wait_notes.note(P, id, waited, 'g', now)
      end
      if kept and not due_at then  -- else its job is paused, and keeps it
        sets.ZADD(live_key(P, queue, status), fmt(math.min(tonumber(scheduled_at), now)), id)  -- those that waited longest come first
        queues[queue] = true
      end
    end
  end)
  for queue in pairs(queues) do due_index.visit_by(P, queue, now) end
end

-- Looks at a lambda's gates: strikes off those that have ended, and lets pass what none keeps any more, `most` tasks at once.
-- Returns how many it dealt with, and whether so many runs failed that all partitions together must be asked.
function parking.look(P, name, now, most)
  local text, kept, next_at = redis.call('HGET', lambda_key(P, name), 'gates') or '', {}, nil
  local standing = {}
  for line in string.gmatch(text, '[^;]+') do
    local gate = gate_rules.parse(line)
    if gate.ends == 0 or gate.ends > now then
      kept[#kept + 1] = line
      standing[fmt(gate.number)] = gate
      if gate.ends > 0 and (not next_at or gate.ends < next_at) then next_at = gate.ends end
    end
  end
  local left = table.concat(kept, ';')
  if left ~= text then gate_records.put(P, name, left, nil, now) end
  local dealt, tallies = 0, redis.call('HGETALL', gate_records.tally_key(P, name))
  for i = 1, #tallies, 2 do
    local number = tallies[i]
    local gate, parked = standing[number], parking.key(P, name, number)
    if string.match(number, '^%d+$') and dealt < most then
      local ids = {}
      if not gate then
        ids = redis.call('ZRANGE', parked, 0, fmt(most - dealt - 1))
        if #ids < most - dealt then redis.call('HDEL', gate_records.tally_key(P, name), number, 'r' .. number) end
      elseif gate.action == 'delay' then
        ids = redis.call('ZRANGE', parked, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, fmt(most - dealt))
      end
      let_through(P, name, number, ids, now)
      dealt = dealt + #ids
      if gate and gate.action == 'delay' then
        local first = redis.call('ZRANGE', parked, 0, 0, 'WITHSCORES')
        if first[2] and (not next_at or tonumber(first[2]) < next_at) then next_at = tonumber(first[2]) end
      end
    end
  end
  if dealt >= most then next_at = now end
  local ask = tonumber(redis.call('HGET', P, 'watched') or 0) > 0 and run_ends.failing(P, name, now)
  if ask then next_at = math.min(next_at or math.huge, now + JUDGE_AGAIN) end
  if next_at then
    redis.call('ZADD', P .. ':gates', fmt(math.max(next_at, now)), name)
  else
    redis.call('ZREM', P .. ':gates', name)
  end
  return dealt, ask
end

-- Lambdas whose gates have ended or were lifted, or that are to let something pass. `most`: half of a pass; the other half is for what is due.
function parking.due(P, pass, most)
  local wait, dealt, now = due_index.first_in(beside_key(P, 'gates'), pass.now), 0, pass.now
  if wait == 0 then
    pass.failing = {}
    for _, name in ipairs(redis.call('ZRANGE', beside_key(P, 'gates'), '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, VISITS_PER_PASS)) do
      local count, failing_here = parking.look(P, name, now, most - dealt)
      dealt = dealt + count
      if failing_here then pass.failing[#pass.failing + 1] = name end
      if dealt >= most then break end
    end
    wait = due_index.first_in(beside_key(P, 'gates'), now)
  end
  pass.gated, pass.budget, pass.next_in = pass.gated + dealt, pass.budget - dealt, wait or pass.next_in
end
