-- The opt-in index: tasks by what they were given. A task stands in the set of each of its entries, "<name>=<value>" of an argument that its
-- lambda has declared. Its record has the entries in the field `ix`, with a blank between two, and so takes them along at its end.

function index.key(P, name, entry) return P .. ':x:' .. name .. ':' .. entry end

-- A task takes its place in the sets of some entries.
function index.enter(P, sets, id, name, entries, at)
  for entry in string.gmatch(entries, '%S+') do sets.ZADD(index.key(P, name, entry), fmt(at), id) end
end

-- A task leaves them, and its group of failures (failures.lua), which may be one of them.
function index.leave(P, sets, id, name, entries)
  for entry in string.gmatch(entries, '%S+') do
    if failures.is_group(entry) then failures.leave(P, id, name, entry) else sets.ZREM(index.key(P, name, entry), id) end
  end
end

-- A task has other entries, or none (nil), in place of those that its record has: it stands in their sets by when it was made, as before.
function index.replace(P, id, name, entries)
  local before = redis.call('HGET', task_key(P, id), 'ix')
  if before == (entries or false) then return end
  if before then index.leave(P, writes.AT_ONCE, id, name, before) end
  if entries then index.enter(P, writes.AT_ONCE, id, name, entries, tonumber(redis.call('ZSCORE', created_key(P, name), id))) end
end
