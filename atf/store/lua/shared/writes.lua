-- Where moves write what they change in sets: at once, or gathered for all tasks of a call.

-- Where the moves below write what they change in sets: at once, or gathered.
writes.AT_ONCE = {
  ZADD = function(key, score, member) redis.call('ZADD', key, score, member) end,
  ZREM = function(key, member) redis.call('ZREM', key, member) end,
  NOTE = function(P, list, newest) lists.note(P, list, newest) end,
  PUSH = function(P, queue, id) pushing.put(P, queue, {id}) end,
  COUNT = function(P, batch, from, to, now) batch_parts.count(P, batch, {[from] = -1, [to] = 1}, now) end,
}

-- Calls work(sets, ...), and then writes what it has put there: one command per set costs a fraction of one per task. A task moves
-- once in a call at most, also where a call names it twice. Also if `work` fails: what has moved must be found where it is now.
-- Of one task there is nothing to gather: the tables that it takes would be most of a call's garbage.
function writes.gather(tasks, work, ...)
  if tasks == 1 then return work(writes.AT_ONCE, ...) end
  local order, added, removed, noted, pushes, counts = {}, {}, {}, {}, nil, nil
  local function begin(command, of, key)
    local into = {}
    of[key], order[#order + 1] = into, {command, key, into}
    return into
  end
  local done, failure = pcall(work, {
    ZADD = function(key, score, member)
      local into = added[key] or begin('ZADD', added, key)
      local count = #into
      into[count + 1], into[count + 2] = score, member
    end,
    ZREM = function(key, member)
      local into = removed[key] or begin('ZREM', removed, key)
      into[#into + 1] = member
    end,
    NOTE = function(P, of, newest)  -- the same instant all through a call
      if noted[of] then return end
      noted[of] = true
      lists.note(P, of, newest)
    end,
    PUSH = function(P, queue, id)
      pushes = pushes or {P = P, of = {}}
      local ids = pushes.of[queue]
      if ids then ids[#ids + 1] = id else pushes.of[queue] = {id} end
    end,
    COUNT = function(P, batch, from, to, now)
      counts = counts or {P = P, now = now, of = {}}
      local mine = counts.of[batch]
      if not mine then
        mine = {}
        counts.of[batch] = mine
      end
      mine[from], mine[to] = (mine[from] or 0) - 1, (mine[to] or 0) + 1
    end,
  }, ...)
  for _, command in ipairs({'ZADD', 'ZREM'}) do  -- in this order: what was renewed and then moved has left
    for _, each in ipairs(order) do
      for first = 1, each[1] == command and #each[3] or 0, PART do
        redis.call(command, each[2], unpack(each[3], first, math.min(first + PART - 1, #each[3])))
      end
    end
  end
  for queue, ids in pairs(pushes and pushes.of or {}) do pushing.put(pushes.P, queue, ids) end
  for batch, mine in pairs(counts and counts.of or {}) do batch_parts.count(counts.P, batch, mine, counts.now) end
  if not done then error(failure, 0) end
end
