-- next_claims: takes tasks from queues and claims them for executors of one host, each task with a new token. What a gate keeps, or what does not fit
--              the executors' signature, leaves the queue instead. An ask that has claimed here before is answered the same, with new leases.
-- MOVES    claim: ENQUEUED -> CLAIMED; park, leave to others: ENQUEUED -> NEW; drop: ENQUEUED -> CANCELLED; heartbeat: CLAIMED
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), what it remembers (see store_clock.note_server), the caller's name on the roster, heartbeat timeout,
--          tasks wanted, bytes that their specs and overhead may come to (a first task may be larger), the pool that asks ("" = of no name), the host that
--          asks ("" = of no name), signatures that its executors run ("lambda=digest lambda=digest ...", with a space before each), how many
--          takers, per taker: owner, nonce, tasks at most; then per group of queues (most urgent first): how many, their names
-- RETURNS  {"unlisted"} = the name is not on the roster; {"paused", then as of `claim_pauses`} while no claims are given; else
--          {queue, {number of the taker, id, counter, spec, scheduled at}, ... of its tasks, queue, ...}: a task that ran before has attempt, run, losses
--          and alone behind that, and where its lambda says so, of which runs the log is kept comes last;
--          unless all three are empty {queues that may hold more}, {hosts to which some was left, where fewer were found than wanted},
--          {nonces that get nothing any more: they were given up, or what they had claimed is over}; and the call's number

local ROUNDS = 4  -- over the queues, where what is taken is not claimable: was cancelled, or is kept by a gate

local takers = {}  -- one for all calls: to make it costs as much as a command

-- Those that have claimed here before get that once more, and nothing else; those that were given up get nothing. Returns the room of the others, and the
-- nonces of those that get nothing any more.
local function look_back(P, count, room, answer)
  local over = {}
  for number = 1, count do
    local taker = takers[number]
    local text = claiming.asked(taker.key)
    if text then
      room, taker.room = room - taker.room, 0
      local found = text ~= claiming.GIVEN_UP and claiming.gives(P) and claiming.repeated(P, answer, number, text, taker.owner, taker.nonce)
      if not found and not claiming.refusal then over[#over + 1] = taker.nonce end
    end
  end
  return room, over
end

-- A call's takers, args[12] on. Returns for how many tasks they have room, the nonces of those that get nothing any more, and whether there are tasks beside queues.
local function read_takers(P, args, count, answer)
  local room, sets = 0, misfits.sets_key(P, '')
  for i = 1, count do
    local at, taker = 9 + 3 * i, takers[i] or {}
    taker.owner, taker.nonce, taker.room, taker.ids, taker.key = args[at], args[at + 1], tonumber(args[at + 2]), false, claiming.ask_key(P, args[at + 1])
    takers[i], room = taker, room + taker.room
  end
  for i = #takers, count + 1, -1 do takers[i] = nil end
  local exists
  if count == 1 then
    exists = redis.call('EXISTS', sets, takers[1].key)
  else
    local keys = {sets}
    for i = 1, count do keys[i + 1] = takers[i].key end
    exists = redis.call('EXISTS', unpack(keys))
  end
  if exists == 0 then return room, NOTHING, false end
  local left, over = look_back(P, count, room, answer)
  return left, over, redis.call('EXISTS', sets) == 1
end

register('next_claims', {'allow-oom'}, function(keys, args)
  local P, now, timeout, signatures, count = keys[1], instant(args[1]), tonumber(args[5]), args[10], tonumber(args[11])
  local answer, filled = {}, NOTHING
  claiming.prepare(now, timeout, signatures, tonumber(args[7]), true)
  claiming.by(args[2], args[3], args[4])
  local room, over, apart = read_takers(P, args, count, answer)
  if not claiming.refusal then
    taking.begin(args, 12 + 3 * count, takers, math.min(tonumber(args[6]), room), now, args[8], args[9], signatures)
    local more, rounds = true, 0
    while more and rounds < ROUNDS do
      filled, more = taking.round(P, answer, apart and signatures ~= '')
      rounds = rounds + 1
    end
  end
  if claiming.refusal then return claiming.refusal end
  claiming.finish(P)
  for _, taker in ipairs(takers) do
    if taker.ids then claiming.remember(taker.key, table.concat(taker.ids, ' '), timeout) end
  end
  local number, left_to = claiming.number(P, #answer > 0), taking.left_to()
  if filled == NOTHING and left_to == NOTHING and over == NOTHING then return {answer, number} end  -- mostly
  return {answer, filled, left_to, over, number}
end)
