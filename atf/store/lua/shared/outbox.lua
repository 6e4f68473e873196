-- The outbox: changes that a partition has for another one. Each lies in the due index until it has been applied there, and acknowledged.

outbox.MEMBER = '>'  -- the outbox's member in the due index; no queue can have this name

-- Adds a change: "version" and, in JSON behind a line break, a word that says what it is, and more words. Returns its number.
function outbox.add(P, target, body, now)
  local number = fmt(redis.call('HINCRBY', P, 'outbox', 1))
  redis.call('HSET', P .. ':outbox', number, target .. '\n' .. body)
  redis.call('ZADD', P .. ':outbox:due', fmt(now), number)
  due_index.visit_by(P, outbox.MEMBER, now)
  return number
end

-- Adds a change for each of the other partitions, of which there are so many with this one.
function outbox.add_for_others(P, partitions, body, now)
  for target = 0, partitions - 1 do
    if fmt(target) ~= number_of(P) then outbox.add(P, target, body, now) end
  end
end

-- The words of a change, in JSON: texts, in which nothing needs to be escaped, and whole numbers.
function outbox.words(...)
  local words = {...}
  for i, each in ipairs(words) do
    if type(each) == 'number' then words[i] = fmt(each) end
  end
  return '\n["' .. table.concat(words, '","') .. '"]'
end

-- The changes that are due, for a store consumer to apply: number, target, body, ...; others leave them alone for a while.
function outbox.due(P, now)
  local due, found = P .. ':outbox:due', {}
  for _, number in ipairs(redis.call('ZRANGE', due, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, 32)) do
    redis.call('ZADD', due, fmt(now + OUTBOX_RETRY), number)
    outbox.append(P, number, found)
  end
  local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
  if first[2] then redis.call('ZADD', P .. ':due', first[2], outbox.MEMBER) else redis.call('ZREM', P .. ':due', outbox.MEMBER) end
  return found
end

-- Adds a change to an answer, as its number, its target and its body.
function outbox.append(P, number, answer)
  answer[#answer + 1] = number
  answer[#answer + 1], answer[#answer + 2] = string.match(redis.call('HGET', P .. ':outbox', number), '^(%d+)\n(.*)$')
end
