-- What is long of a task's record lies apart: each value of more than record.INLINE bytes in a string of its own, beside the hash. One such
-- value in a hash, and Redis keeps the hash in a form that takes four times the memory.
--
-- In its place the hash has record.APART. The hash's field `ap` names the fields of which a value was ever put apart, for who deletes the record.

record.APART = '\0'  -- an odd value that is just this one lies apart, too
record.FIELDS = {spec = true, res = true, err = true, R = true, p = true, me = true, log = true}  -- which may be long

local function apart_key(P, id, field) return P .. ':v:' .. id .. ':' .. field end

-- Stores a value of a field, if it is long. Returns what the hash is to have of it. `new`: the record is being made, and nothing of it lies apart.
function record.put(P, id, field, value, new)
  if #value <= record.INLINE and value ~= record.APART then return value end
  redis.call('SET', apart_key(P, id, field), value)
  local named = not new and redis.call('HGET', task_key(P, id), 'ap')
  if not named then
    redis.call('HSET', task_key(P, id), 'ap', field)
  elseif not string.find(' ' .. named .. ' ', ' ' .. field .. ' ', 1, true) then
    redis.call('HSET', task_key(P, id), 'ap', named .. ' ' .. field)
  end
  return record.APART
end

-- The value of a field, of which the hash has `held`.
function record.get(P, id, field, held)
  if held ~= record.APART then return held end
  return redis.call('GET', apart_key(P, id, field)) or ''
end

-- Deletes a record with what lies apart. `named`: its field `ap`.
function record.drop(P, id, named)
  redis.call('DEL', task_key(P, id))
  for field in string.gmatch(named or '', '%S+') do redis.call('DEL', apart_key(P, id, field)) end  -- mutant: apart_left
end
