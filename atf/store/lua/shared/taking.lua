-- Taking: which ids leave which queues for the takers of one call. No id is between a queue and a claim when the call has ended: what no taker
-- is given goes back to its place.
--
-- A group of queues is emptied before the next one is looked at; within a group the queues share evenly what is still wanted. What a lambda gets
-- by that is dealt among its priorities by their shares, so that those of the other groups have theirs. Paused lambdas are passed over, and those
-- that another pool runs. A queue that was full is visited again once a tenth of it is free.

local MAX_NAMED = 8192  -- queues that are looked into where all are to be named
local IN_ONE_CALL = 64  -- that one call of Redis tells to be empty
local MAX_DRAWN = 256  -- ids of lambdas with a placement that one round looks at; behind them it takes what comes first

-- Calls look(queue, length) for those of some queues, queues[from] to queues[to], that hold something, until it answers true. Returns the
-- last one that it has looked at. Mostly all are empty: one call of Redis tells that of many.
local function each_filled(P, queues, from, to, look)
  for first = from, to, IN_ONE_CALL do
    local last, lists = math.min(first + IN_ONE_CALL - 1, to), {}
    for i = first, last do lists[#lists + 1] = list_key(P, queues[i]) end
    local empty = first < last and redis.call('EXISTS', unpack(lists)) == 0  -- of one alone its length says so itself
    for i = first, empty and first - 1 or last do
      local length = redis.call('LLEN', lists[i - first + 1])
      if length > 0 and look(queues[i], length) then return i end
    end
  end
  return to
end

-- Adds the names of those queues that hold something.
function taking.name_filled(P, queues, names)
  each_filled(P, queues, 1, #queues, function(queue) names[#names + 1] = queue end)
end

-- All queues that hold something. Whatever stands in one has an instant in the due index, but for what is paused. Those that are
-- looked at soonest come first, so beyond MAX_NAMED each has its turn within an enqueue timeout.
function taking.all_filled(P)
  local names = {}
  taking.name_filled(P, redis.call('ZRANGE', P .. ':due', 0, MAX_NAMED - 1), names)
  return names
end

-- Those of some queues, queues[from] to queues[to], that hold something for this pool; also added to their lambda's in `round.lambdas`. It looks
-- no further than there are ids `wanted`, one of each, and returns where it has ended.
local function find(P, queues, from, to, round, wanted)
  local asked, lambdas, found = round.asked, round.lambdas, NOTHING
  local last = each_filled(P, queues, from, to, function(queue, length)
    if not asked.begins(P) then return true end
    local name = lambda_of(queue)
    local ours, placed, limit = registry.gives_to(P, name, asked.pool)
    if not ours then return false end
    local each = {queue = queue, length = length, limit = limit, wants = length, gets = 0}
    if (placed == 'sticky' or placed == 'spread') and asked.host ~= '' and round.drawn < MAX_DRAWN then
      each.name, each.placement = name, placed
      each.wants = placement.draw(P, each, math.min(asked.want + 16, MAX_DRAWN - round.drawn), asked.host, asked.now)
      round.drawn = round.drawn + #each.tasks
    end
    if not lambdas[name] then
      lambdas[name] = {}
      lambdas[#lambdas + 1] = name
    end
    local of = lambdas[name]
    of[#of + 1] = each
    if found == NOTHING then found = {} end
    found[#found + 1] = each
    wanted = wanted - (each.wants > 0 and 1 or 0)
    return wanted <= 0
  end)
  return found, last
end

local function got(queues)
  local sum = 0
  for _, each in ipairs(queues or NOTHING) do sum = sum + each.gets end
  return sum
end

-- Shares out what is wanted evenly. Returns what is wanted beyond that.
local function share(found, wanted)
  if #found == 0 then return wanted end
  local left = wanted
  if #found == 1 then
    found[1].gets = math.min(found[1].wants, left)
    return left - found[1].gets
  end
  while left > 0 do
    local hungry = {}
    for _, each in ipairs(found) do
      if each.gets < each.wants then hungry[#hungry + 1] = each end
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

-- Looks over the groups of queues: args[first] on, per group how many and their names. Returns what is wanted beyond what they hold.
local function look(P, args, first, round, wanted)
  local behind, i = NOTHING, first
  while i <= #args do
    local next_one, last = i + 1, i + tonumber(args[i])
    if wanted > 0 then
      local found, looked = find(P, args, next_one, last, round, wanted)
      wanted, next_one = share(found, wanted), looked + 1
    end
    for j = next_one, last do  -- a lambda's priorities have their shares of what it gets; the others stand back
      local of = round.lambdas[lambda_of(args[j])]
      if of and got(of) > 0 then
        if behind == NOTHING then behind = {} end
        behind[#behind + 1] = args[j]
      else
        round.others[#round.others + 1] = args[j]
      end
    end
    i = last + 1
  end
  if behind ~= NOTHING then find(P, behind, 1, #behind, round, #behind) end
  return wanted
end

local function add(round, each, ids)
  local count = #round.ids
  for i = 1, #ids do round.ids[count + i], round.from[count + i] = ids[i], each end
end

-- Takes what each queue was dealt. `hungry`: more was wanted than there is.
local function take(P, round, hungry)
  local asked = round.asked
  for _, name in ipairs(round.lambdas) do
    local queues = round.lambdas[name]
    if #queues > 1 and got(queues) > 0 then fair_shares.deal(P, name, queues, got(queues), 'pops') end
    for _, each in ipairs(queues) do
      if each.tasks then
        local ids, left = placement.take(P, each, asked.host, asked.now, hungry)
        add(round, each, ids)
        if left then asked.left_to = left end
      elseif each.gets > 0 then
        add(round, each, redis.call('LPOP', list_key(P, each.queue), each.gets))
      end
    end
  end
end

-- Adds tasks that did not fit executors with another signature, from the sets beside the queues: `most` of them, evenly. Returns how many.
local function take_beside(P, round, most)
  local sets, left = round.beside, most
  local part = math.max(math.floor(most / math.max(#sets, 1)), 1)
  for _, each in ipairs(sets) do
    local count = math.min(part, left, each.length - each.gets)
    if count > 0 then
      local ids = misfits.stand(P, each.set, each.gets, count)
      add(round, each, ids)
      each.gets, left = each.gets + count, left - count
    end
  end
  return most - left
end

-- Gives the ids to the takers, one by one in turns.
local function give_each(sets, P, round)
  local asked, ids, from = round.asked, round.ids, round.from
  local takers, answer = asked.takers, asked.answer
  for i = 1, #ids do
    local each, taker, entry, queue = from[i], nil, nil, nil
    if not asked.full then
      while takers[asked.turn].room <= 0 do asked.turn = asked.turn % #takers + 1 end
      taker = takers[asked.turn]
      entry, queue = claiming.give(P, sets, asked.turn, ids[i], taker.owner, taker.nonce)
    end
    if entry then
      if queue ~= asked.queue then answer[#answer + 1], asked.queue = queue, queue end
      answer[#answer + 1] = entry
      taker.ids[#taker.ids + 1], taker.room = ids[i], taker.room - 1
      asked.turn, asked.want = asked.turn % #takers + 1, asked.want - 1
    elseif entry == nil then  -- unseen from here on: reading specs that are not given would take as long as giving them
      asked.full = true
      each.back = each.back or {}
      each.back[#each.back + 1] = ids[i]
    end
  end
end

-- Puts ids back to the front of the queue from which they came. An entry's number tells whether it has left the queue: see enqueue.lua. What was
-- the queue's front in this order has its number.
local function put_back(P, each)
  local list, reversed, count = list_key(P, each.queue), {}, #each.back
  for i = 1, count do reversed[i] = each.back[count + 1 - i] end
  local length = redis.call('LPUSH', list, unpack(reversed))  -- mutant: not_put_back_for_size
  if not each.tasks then return end
  local gone = tonumber(redis.call('HGET', queue_key(P, each.queue), 'pushed') or 0) - length
  for i, id in ipairs(each.back) do
    if redis.call('HGET', task_key(P, id), 's') == 'ENQUEUED' then redis.call('HSET', task_key(P, id), 'e', fmt(gone + i)) end
  end
end

-- What is to be done to queues after their ids were given; names those that hold more for this pool.
local function leave(P, round, filled)
  for _, name in ipairs(round.lambdas) do
    local queues, cut = round.lambdas[name], false
    for _, each in ipairs(queues) do
      local before, back = each.length, each.back and #each.back or 0
      local taken = each.gets - back
      if back > 0 then
        put_back(P, each)
        cut = #queues > 1
      end
      if before * 10 > each.limit * 9 and (before - taken) * 10 <= each.limit * 9 and redis.call('HDEL', queue_key(P, each.queue), 'full') == 1 then
        due_index.visit_by(P, each.queue, round.asked.now)
      end
      each.gets = taken
      if taken < each.wants or each.tasks and #each.tasks < before then filled[#filled + 1] = each.queue end
    end
    if cut then fair_shares.correct(P, name, queues, 'pops') end
  end
  for _, each in ipairs(round.beside) do
    local taken = each.gets - (each.back and #each.back or 0)
    if taken > 0 then misfits.taken(P, each.set, misfits.stand(P, each.set, 0, taken)) end
    if taken < each.length then filled[#filled + 1] = each.queue end
  end
end

-- One round over the queues. Adds to asked.answer, and says in asked.filled what holds more. Returns whether another one may find what this one
-- took in vain.
function taking.round(P, asked, args, first)
  local round = {asked = asked, lambdas = {}, others = {}, beside = NOTHING, ids = {}, from = {}, drawn = 0}
  local want, part, filled = asked.want, 0, {}
  if asked.apart and asked.begins(P) then
    round.beside = misfits.fitting(P, asked.signatures, asked.pool)
    -- Of what is wanted a fourth: else those would never be reached beside a long queue. Where less is wanted, now and then one.
    part = take_beside(P, round, math.floor((want + asked.now % misfits.PART) / misfits.PART))
  end
  local left = look(P, args, first, round, want - part)
  if asked.refusal then return false end
  take(P, round, left > 0)
  if left > 0 and round.beside ~= NOTHING then left = left - take_beside(P, round, left) end
  if #round.ids > 0 then writes.gather(#round.ids, give_each, P, round) end
  leave(P, round, filled)
  taking.name_filled(P, round.others, filled)
  asked.filled = filled
  return left == 0 and asked.want > 0 and not asked.full
end
