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
--          {queues that may hold more}, {hosts to which some was left, where fewer were found than wanted}, {nonces that were given up},
--          and the call's number

local ROUNDS = 4  -- over the queues, where what is taken is not claimable: was cancelled, or is kept by a gate

-- Whether claims are given. That is asked where anything was found: a call that comes too late finds nothing.
local function begins(P, asked, args)
  if asked.begun ~= nil then return asked.begun end
  local now, timeout = asked.now, tonumber(args[5])
  local pause, gated, clock, logged = store_clock.note_server(P, args[2], args[3], now, timeout, 'logged')
  asked.last = roster.last(P, args[4])
  if asked.last then store_clock.note(P, now, clock, store_clock.NOTED) end
  if not asked.last then
    asked.refusal = {'unlisted'}
  elseif pause then
    asked.refusal = {'paused', unpack(roster.pause(P, now))}
  else
    claiming.begin(P, now, timeout, gated, tonumber(logged or 0) > 0, asked.signatures, tonumber(args[7]), true)
  end
  asked.begun = not asked.refusal
  return asked.begun
end

-- The takers, args[12] on. Those that have claimed here before, or were given up, take nothing; the others may take no more than is wanted.
local function read_takers(P, asked, args)
  local count, keys = tonumber(args[11]), {misfits.sets_key(P, '')}
  for i = 1, count do
    local at = 9 + 3 * i
    asked.takers[i] = {owner = args[at], nonce = args[at + 1], room = math.max(tonumber(args[at + 2]), 0), ids = {}}
    keys[i + 1] = claiming.ask_key(P, args[at + 1])
  end
  local room = 0
  if redis.call('EXISTS', unpack(keys)) > 0 then
    asked.apart = asked.signatures ~= '' and redis.call('EXISTS', keys[1]) == 1
    for number, taker in ipairs(asked.takers) do
      local text = claiming.asked(P, taker.nonce)
      if text then taker.room = 0 end
      if text == claiming.GIVEN_UP then
        asked.given_up = {taker.nonce, unpack(asked.given_up)}
      elseif text and asked.begins(P) then
        claiming.repeated(P, asked.answer, number, text, taker.owner, taker.nonce)
      end
    end
  end
  for _, taker in ipairs(asked.takers) do room = room + taker.room end
  asked.want = math.min(tonumber(args[6]), room)
end

register('next_claims', {'allow-oom'}, function(keys, args)
  local P = keys[1]
  local asked = {
    now = instant(args[1]), pool = args[8], host = args[9], signatures = args[10], takers = {}, turn = 1, answer = {}, filled = NOTHING, left_to = NOTHING,
    given_up = NOTHING,
  }
  asked.begins = function() return begins(P, asked, args) end
  read_takers(P, asked, args)
  local rounds, first = 0, 12 + 3 * #asked.takers
  while not asked.refusal and rounds < ROUNDS and taking.round(P, asked, args, first) do rounds = rounds + 1 end
  if asked.refusal then return asked.refusal end
  local number = '0'
  if asked.begun then
    claiming.finish(P)
    for _, taker in ipairs(asked.takers) do
      if #taker.ids > 0 then claiming.remember(P, taker.nonce, table.concat(taker.ids, ' '), tonumber(args[5])) end
    end
    number = #asked.answer > 0 and roster.count(P, args[4], asked.last, asked.now) or fmt(asked.last)
  end
  return {asked.answer, asked.filled, asked.left_to, asked.given_up, number}
end)
