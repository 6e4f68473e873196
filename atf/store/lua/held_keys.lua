-- What keys hold back. An ordering key is a list of its unfinished tasks in the order of their acceptance, of which only the first
-- may become due (see `advance` and `release` in common.lua). A lambda may have its keys stop at a task that fails for good.

-- The field k of a lambda's ordering key that is in use, and the head of its list. A release that knew ordering keys of all
-- lambdas together named lists by the key alone; such a list is used on until it is empty.
local function ordering_of(P, name, key)
  for _, k in ipairs({key, name .. ':' .. key}) do
    local head = redis.call('LINDEX', order_key(P, k), 0)
    if head then return k, head end
  end
end

-- The field k of a task that joins an ordering key.
local function joined(P, k)
  local old = string.match(k, '[^:]*$')
  return redis.call('EXISTS', order_key(P, old)) == 1 and old or k
end

-- The field k of an ordering key, and the task at which it has stopped; nil where it has not.
local function stopped_at(P, name, key)
  local k, head = ordering_of(P, name, key)
  if k and string.sub(head, 1, 1) == STOPPED then return k, string.sub(head, 2) end
end

-- Takes a stop away. The task that failed stays what it is.
local function pass_over(P, name, k, now)
  redis.call('LPOP', order_key(P, k))
  redis.call('ZREM', stops_key(P, name), k)
  advance(P, k, now)
end
