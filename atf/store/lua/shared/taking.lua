-- Taking: which ids leave which queues for the takers of one call. No id is between a queue and a claim when the call has ended: what no taker
-- is given goes back to its place.
--
-- A group of queues is emptied before the next one is looked at; within a group the queues share evenly what is still wanted. What a lambda gets
-- by that is dealt among its priorities by their shares, so that those of the other groups have theirs. Paused lambdas are passed over, and those
-- that another pool runs. A queue that was full is visited again once a tenth of it is free.

local MAX_NAMED = 8192  -- queues that are looked into where all are to be named
local IN_ONE_CALL = 64  -- that one call of Redis tells to be empty
local MAX_DRAWN = 256  -- ids of lambdas with a placement that one round looks at; behind them it takes what comes first

-- What the call of the moment asks for, and what its rounds find; one for all calls: to make it costs as much as a command. No field is ever nil: to
-- set one to nil makes it anew each time. `found` and `parts` are longer than `asked.count` and `asked.some` where an earlier call found more.
local asked, found, parts = {}, {}, {}

-- Begins a call. `args`, `first`: the groups of queues stand in args[first] on, per group how many and their names.
function taking.begin(args, first, takers, want, now, pool, host, signatures)
  asked.args, asked.first, asked.takers, asked.want, asked.now, asked.pool, asked.host, asked.signatures = args, first, takers, want, now, pool, host, signatures
  asked.turn, asked.queue, asked.full, asked.left_to = 1, false, false, NOTHING
end

-- Calls look(P, queue, length) for those of some queues, queues[from] to queues[to], that hold something, until it answers true. Returns the
-- last one that it has looked at. Mostly all are empty: one call of Redis tells that of many.
local function each_filled(P, queues, from, to, look)
  if from == to then
    local length = redis.call('LLEN', list_key(P, queues[from]))
    if length > 0 then look(P, queues[from], length) end
    return to
  end
  for first = from, to, IN_ONE_CALL do
    local last, lists = math.min(first + IN_ONE_CALL - 1, to), {}
    for i = first, last do lists[#lists + 1] = list_key(P, queues[i]) end
    local empty = redis.call('EXISTS', unpack(lists)) == 0
    for i = first, empty and first - 1 or last do
      local length = redis.call('LLEN', lists[i - first + 1])
      if length > 0 and look(P, queues[i], length) then return i end
    end
  end
  return to
end

-- Adds the names of those queues that hold something.
local function name_filled(P, queues, names)
  each_filled(P, queues, 1, #queues, function(_, queue) names[#names + 1] = queue end)
end

-- All queues that hold something. Whatever stands in one has an instant in the due index, but for what is paused. Those that are
-- looked at soonest come first, so beyond MAX_NAMED each has its turn within an enqueue timeout.
function taking.all_filled(P)
  local names = {}
  name_filled(P, redis.call('ZRANGE', beside_key(P, 'due'), 0, MAX_NAMED - 1), names)
  return names
end

-- A queue holds something: it is found, if it may be given to this pool. Whether that was the last one that is needed.
local function find(P, queue, length)
  if not claiming.gives(P) then return true end
  local name = lambda_of(queue)
  local ours, placed, limit = registry.gives_to(P, name, asked.pool)
  if not ours then return false end
  local number = asked.count + 1
  local each = found[number] or {}
  each.queue, each.name, each.length, each.limit, each.wants, each.gets, each.given = queue, name, length, limit, length, 0, 0
  each.tasks, each.ids, each.share, each.set = false, false, false, false
  if (placed == 'sticky' or placed == 'spread') and asked.host ~= '' and asked.drawn < MAX_DRAWN then
    each.placement = placed
    each.wants = placement.draw(P, each, math.min(asked.want + 16, MAX_DRAWN - asked.drawn), asked.host, asked.now)
    asked.drawn = asked.drawn + #each.tasks
  end
  found[number], asked.count = each, number
  if each.wants > 0 then asked.look_for = asked.look_for - 1 end
  return asked.look_for <= 0
end

-- Shares out what is wanted evenly among those that were found from the one with this number on. Returns what is wanted beyond that.
local function share(from, wanted)
  local left = wanted
  if asked.count == from then
    found[from].gets = math.min(found[from].wants, left)
    return left - found[from].gets
  end
  while left > 0 do
    local hungry = {}
    for i = from, asked.count do
      if found[i].gets < found[i].wants then hungry[#hungry + 1] = found[i] end
    end
    if #hungry == 0 then break end
    local each_takes = math.max(math.floor(left / #hungry), 1)
    for _, each in ipairs(hungry) do
      local more = math.min(each_takes, each.wants - each.gets, left)
      each.gets = each.gets + more
      left = left - more
    end
  end
  return left
end

-- What each lambda gets.
local function got()
  local sums = {}
  for i = 1, asked.count do sums[found[i].name] = (sums[found[i].name] or 0) + found[i].gets end
  return sums
end

-- Of a group, the queues that were not looked at: a lambda's priorities have their shares of what it gets; the others stand back.
local function stand_back(queues, from, to)
  local sums = got()
  if asked.others == NOTHING then asked.behind, asked.others = {}, {} end
  for i = from, to do
    local into = (sums[lambda_of(queues[i])] or 0) > 0 and asked.behind or asked.others
    into[#into + 1] = queues[i]
  end
end

-- Looks over the groups of queues. It looks no further than there are ids wanted, one of each queue. Returns what is wanted beyond what they hold.
local function look(P, wanted)
  local args, i = asked.args, asked.first
  while i <= #args do
    local next_one, last, from = i + 1, i + tonumber(args[i]), asked.count + 1
    if wanted > 0 then
      asked.look_for = wanted
      next_one = each_filled(P, args, next_one, last, find) + 1
      if asked.count >= from then wanted = share(from, wanted) end
    end
    if next_one <= last then stand_back(args, next_one, last) end
    i = last + 1
  end
  if #asked.behind > 0 then
    asked.look_for = #asked.behind
    each_filled(P, asked.behind, 1, #asked.behind, find)
  end
  return wanted
end

-- Where several queues of a lambda were found, deals what it gets among them; puts the queues of a lambda together.
local function deal(P)
  local sums, groups, number = got(), {}, 0
  for i = 1, asked.count do
    local each = found[i]
    local of = groups[each.name]
    if not of then
      of = {}
      groups[each.name], groups[#groups + 1] = of, of
    end
    of[#of + 1] = each
  end
  asked.groups = groups
  for _, queues in ipairs(groups) do
    local name = queues[1].name
    if #queues > 1 and sums[name] > 0 then fair_shares.deal(P, name, queues, sums[name], 'takes') end
    for _, each in ipairs(queues) do
      number = number + 1
      found[number] = each
    end
  end
end

local function add(part, ids)
  part.ids, asked.some, asked.ids = ids, asked.some + 1, asked.ids + #ids
  parts[asked.some] = part
end

-- Takes what each queue was dealt. `hungry`: more was wanted than there is.
local function take(P, hungry)
  if asked.count > 1 then deal(P) end
  for i = 1, asked.count do
    local each = found[i]
    if each.tasks then
      local ids, left = placement.take(P, each, asked.host, asked.now, hungry)
      asked.left_to = left or asked.left_to
      add(each, ids)
    elseif each.gets > 0 then
      add(each, redis.call('LPOP', list_key(P, each.queue), each.gets))
    end
  end
end

-- Adds tasks that did not fit executors with another signature, from the sets beside the queues: `most` of them, evenly. Returns how many.
local function take_beside(P, most)
  local sets, left = asked.beside, most
  local share_of = math.max(math.floor(most / math.max(#sets, 1)), 1)
  for _, set in ipairs(sets) do
    local count = math.min(share_of, left, set.length - set.gets)
    if count > 0 then
      add({set = set, given = 0}, misfits.stand(P, set.name, set.gets, count))
      set.gets, left = set.gets + count, left - count
    end
  end
  return most - left
end

-- Gives the ids to the takers, one by one in turns. Once one does not fit, those behind it stay unseen: reading specs that are not given would
-- take as long as giving them.
local function give_each(sets, P, answer)
  local takers, turn = asked.takers, asked.turn
  for number = 1, asked.some do
    local part = parts[number]
    local ids = part.ids
    for i = 1, #ids do
      while takers[turn].room <= 0 do turn = turn % #takers + 1 end
      local taker = takers[turn]
      local entry, queue = claiming.give(P, sets, turn, ids[i], taker.owner, taker.nonce)
      if entry then
        if queue ~= asked.queue then answer[#answer + 1], asked.queue = queue, queue end
        answer[#answer + 1] = entry
        local its = taker.ids or {}
        its[#its + 1] = ids[i]
        taker.ids, taker.room = its, taker.room - 1
        turn, asked.want = turn % #takers + 1, asked.want - 1
      elseif entry == nil then
        part.given, asked.full = i - 1, true
        return
      end
    end
    part.given = #ids
  end
  asked.turn = turn
end

-- Puts ids back to the front of the queue from which they came, ids[from] on. An entry's number tells whether it has left the queue: see
-- enqueue.lua. What was the queue's front in this order has its number.
local function put_back(P, each, from)
  local list, back = list_key(P, each.queue), {}
  for i = #each.ids, from, -1 do back[#back + 1] = each.ids[i] end
  local length = redis.call('LPUSH', list, unpack(back))
  if not each.tasks then return end
  local gone = tonumber(redis.call('HGET', queue_key(P, each.queue), 'pushed') or 0) - length
  for i = from, #each.ids do
    local key = task_key(P, each.ids[i])
    if redis.call('HGET', key, 's') == 'ENQUEUED' then redis.call('HSET', key, 'e', fmt(gone + i - from + 1)) end
  end
end

-- What is to be done to a queue after its ids were given. `met`: no more was wanted than there was. Returns whether it holds more for this pool:
-- what is left to other hosts, others may ask for at once; where more was wanted, the asker is told to whom it was left.
local function leave_queue(P, each, met)
  local before, given = each.length, each.given
  if each.ids and given < #each.ids then  -- mutant: not_put_back
    put_back(P, each, given + 1)
    asked.cut = true
  end
  local left = before - given
  -- It can only be noted as full where nothing was taken since its length came down to nine tenths.
  if before * 10 > each.limit * 9 and left * 10 <= each.limit * 9 and redis.call('HDEL', queue_key(P, each.queue), 'full') == 1 then
    due_index.visit_by(P, each.queue, asked.now)
  end
  each.gets = given
  return given < each.wants or each.tasks and (#each.tasks < before or met and given < #each.tasks)
end

local function add_name(names, name)
  if names == NOTHING then return {name} end
  names[#names + 1] = name
  return names
end

-- The same of all queues, and of the sets beside them. Returns the names of those that hold more.
local function leave(P, met)
  local filled = NOTHING
  asked.cut = false
  for i = 1, asked.count do
    if leave_queue(P, found[i], met) then filled = add_name(filled, found[i].queue) end
  end
  if asked.cut and asked.count > 1 then
    for _, queues in ipairs(asked.groups) do
      if #queues > 1 and queues[1].share then fair_shares.correct(P, queues[1].name, queues, 'takes') end
    end
  end
  for i = 1, #asked.beside > 0 and asked.some or 0 do
    local part = parts[i]
    if part.set then
      misfits.taken(P, part.set.name, {unpack(part.ids, 1, part.given)})
      part.set.gets = part.set.gets - (#part.ids - part.given)
    end
  end
  for _, set in ipairs(asked.beside) do
    if set.gets < set.length then filled = add_name(filled, set.queue) end
  end
  if #asked.others > 0 then
    if filled == NOTHING then filled = {} end
    name_filled(P, asked.others, filled)
  end
  return filled
end

-- One round over the queues: adds claims to `answer`, each after its queue's name where that is another one than before. Returns the names of
-- queues that hold more, and whether another round may find what this one took in vain. `apart`: whether there are tasks beside queues.
function taking.round(P, answer, apart)
  local want, part = asked.want, 0
  asked.behind, asked.others, asked.beside, asked.count, asked.some, asked.drawn, asked.ids = NOTHING, NOTHING, NOTHING, 0, 0, 0, 0
  if apart and claiming.gives(P) then
    asked.beside = misfits.fitting(P, asked.signatures, asked.pool)
    -- Of what is wanted a fourth: else those would never be reached beside a long queue. Where less is wanted, now and then one.
    part = take_beside(P, math.floor((want + asked.now % misfits.PART) / misfits.PART))
  end
  local left = look(P, want - part)
  if claiming.refusal then return NOTHING, false end
  take(P, left > 0)
  if left > 0 and #asked.beside > 0 then left = left - take_beside(P, left) end
  if asked.ids > 0 then writes.gather(asked.ids, give_each, P, answer) end
  return leave(P, left == 0), left == 0 and asked.want > 0 and not asked.full
end

-- To which hosts some was left, where fewer were found than wanted.
function taking.left_to() return asked.left_to end
