-- claim: gives tasks to an executor, each with a new token. What a gate keeps, or what does not fit the executor's signature,
--        leaves the queue instead.
-- MOVES    claim: ENQUEUED -> CLAIMED; park, leave to others: ENQUEUED -> NEW; drop: ENQUEUED -> CANCELLED
-- KEYS[1]  the partition's record
-- ARGV     now, server's run id ("" = unknown), what it remembers (see store_clock.note_server), the caller's name on the roster, owner, nonce,
--          heartbeat timeout, bytes at most, 1 = the first task may be larger than that, signatures that the owner runs ("lambda=digest
--          lambda=digest ...", with a space before each), then the ids
-- RETURNS  {"unlisted"} = the name is not on the roster; {"paused", then as of `claim_pauses`} while no claims are given; else per id {queue, and what
--          `next_claims` answers of a task}, {id} = lost, {id, ""} = left as it was, for the bytes; and then the call's number

local function give_each(sets, P, args, answer)
  local full = false
  for i = 11, #args do
    local id = args[i]
    local entry, queue
    if not full then
      entry, queue = claiming.give(P, sets, '', id, args[5], args[6])
      if entry == false then entry, queue = claiming.again(P, '', id, args[5], args[6], false) end  -- by this very call, once more
    end
    full = entry == nil  -- what comes after it is not given before it: to read specs that are not given would take as long as giving them
    if entry then entry[1] = queue end
    answer[#answer + 1] = entry or full and {id, ''} or {id}
  end
end

register('claim', {'allow-oom'}, function(keys, args)
  local P, now, timeout = keys[1], instant(args[1]), tonumber(args[7])
  local pause, gated, clock, logged = store_clock.note_server(P, args[2], args[3], now, timeout, 'logged')
  local last = roster.last(P, args[4])
  if not last then return {'unlisted'} end
  store_clock.note(P, now, clock, store_clock.NOTED)
  if pause then return {'paused', unpack(roster.pause(P, now))} end

  local answer = {}
  claiming.prepare(now, timeout, args[10], tonumber(args[8]), args[9] == '1')
  claiming.begin(gated, tonumber(logged or 0) > 0)
  writes.gather(#args - 10, give_each, P, args, answer)
  claiming.finish(P)
  local gives = false
  for _, each in ipairs(answer) do gives = gives or #each > 2 end  -- also once more: the call before may have been somebody else's
  answer[#answer + 1] = gives and roster.count(P, args[4], last, now) or fmt(last)
  return answer
end)
