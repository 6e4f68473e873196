-- Placement: which of the tasks at the front of a queue a host takes, where their lambda says sticky or spread.
--
-- A call that takes draws some ids, leaves those that another host is to have, and puts what it does not take back where it was. What is left so is
-- anybody's once others have been passed over for placement.PATIENCE in its favour; and a host that let that happen is waited for no more
-- for placement.AWAY, or until it asks again. So a preference costs a task placement.PATIENCE at most, and hosts that are busy or gone little.

local spread_key = remembered(function(P, name) return P .. ':spread:' .. name end)
local function away_field(name, host) return '!' .. name .. ' ' .. host end

local function is_away(P, name, host, now)
  return tonumber(redis.call('HGET', P .. ':near', away_field(name, host)) or 0) > now
end

local function remember(P, values, expiry)
  if #values == 0 then return end
  redis.call('HSET', P .. ':near', unpack(values))
  local scores = {}
  for i = 1, #values, 2 do scores[#scores + 1], scores[#scores + 2] = fmt(expiry), values[i] end
  redis.call('ZADD', P .. ':near:expiry', unpack(scores))
  local excess = math.min(redis.call('ZCARD', P .. ':near:expiry') - placement.KEPT, #values)
  if excess <= 0 then return end
  local oldest = redis.call('ZRANGE', P .. ':near:expiry', 0, fmt(excess - 1))
  redis.call('HDEL', P .. ':near', unpack(oldest))
  redis.call('ZREM', P .. ':near:expiry', unpack(oldest))
end

-- sticky: a task is for the host that took the last one of its affinity key.
local function leave_to_owners(P, found, host, now)
  local fields, waits = {}, {}
  for _, each in ipairs(found.tasks) do
    if each.key then fields[#fields + 1] = found.name .. ':' .. each.key end
  end
  if #fields == 0 then return end
  local owners, place = redis.call('HMGET', P .. ':near', unpack(fields)), 0
  for _, each in ipairs(found.tasks) do
    if each.key then
      place = place + 1
      local owner = owners[place]
      if owner and owner ~= host then
        if waits[owner] == nil then waits[owner] = not is_away(P, found.name, owner, now) end
        each.leave = waits[owner] and {owner}
      end
    end
  end
end

-- The hosts of a lambda that is spread, with what each was given: those that live, and are not away. The others are forgotten. And how
-- many were looked at.
local function spread_over(P, name, host, now)
  local all, counts = redis.call('HGETALL', spread_key(P, name)), {}
  for i = 1, #all, 2 do
    local alive = all[i] == host or tonumber(redis.call('ZSCORE', P .. ':hosts', all[i]) or 0) > now
    if not alive then
      redis.call('HDEL', spread_key(P, name), all[i])
    elseif all[i] == host or not is_away(P, name, all[i], now) then
      counts[all[i]] = tonumber(all[i + 1])
    end
  end
  return counts, #all / 2
end

-- How much one call may still look at to deal lambdas over hosts: many lambdas beside many hosts would hold up the store. `now` tells calls
-- apart.
local function looks_left(now)
  if placement.call ~= now then placement.call, placement.left = now, placement.LOOKS end
  return placement.left
end

-- Who joins, or was away, starts where the least of the others stands: it is given no more than its part from now on.
local function least_of(counts, but)
  local least
  for each, count in pairs(counts) do
    if each ~= but and (not least or count < least) then least = count end
  end
  return least or 0
end

-- spread: of so many tasks each host has its part, which fills up those that were given the fewest.
local function leave_to_others(P, found, host, now)
  local counts = spread_over(P, found.name, host, now)
  local own = counts[host]
  if not own or is_away(P, found.name, host, now) then own = math.max(own or 0, least_of(counts, host)) end
  counts[host], found.own = own, own
  local order, sum, level = {}, 0, nil
  for each, count in pairs(counts) do order[#order + 1] = {host = each, count = count} end
  table.sort(order, function(one, other) return one.count < other.count end)
  for i, each in ipairs(order) do
    sum = sum + each.count
    local following = order[i + 1]
    if not following or #found.tasks <= following.count * i - sum then
      level = math.ceil((#found.tasks + sum) / i)
      break
    end
  end
  local fewer = {}  -- hosts that have less than their part
  for _, each in ipairs(order) do
    if each.host ~= host and each.count < level then fewer[#fewer + 1] = each.host end
  end
  for i = math.max(level - own, 0) + 1, #found.tasks do found.tasks[i].leave = #fewer > 0 and fewer end
end

-- Draws so many ids from a queue. Returns the number of those that this host may take.
function placement.draw(P, found, count, host, now)
  local ids = redis.call('LPOP', list_key(P, found.queue), count)
  found.tasks, found.wants = {}, 0
  for i, id in ipairs(ids) do
    local status, affinity, pushed_at, passed_over = fields_of(task_key(P, id), 's', 'af', 't2', 'pb')
    local waits = status == 'ENQUEUED'  -- else it was cancelled, or is here twice: whoever claims it finds out
    local since = tonumber(passed_over or nil)
    if since and since < tonumber(pushed_at or 0) then since = nil end  -- when it stood in the queue before
    if since and since > now then since = 0 end  -- the clock has stepped back: it has waited for long enough
    found.tasks[i] = {id = id, key = waits and affinity, since = since, waits = waits}
  end
  if found.placement == 'spread' then leave_to_others(P, found, host, now) else leave_to_owners(P, found, host, now) end
  for _, each in ipairs(found.tasks) do
    each.free = not each.leave or not each.waits or each.since and now >= each.since + placement.PATIENCE  -- mutant: kept_for_its_host
    if each.free then found.wants = found.wants + 1 end
  end
  return found.wants
end

-- Adds hosts to those to which something is left.
local function note_left(left, hosts)
  local known = {}
  for _, host in ipairs(left) do known[host] = true end
  for _, host in ipairs(hosts) do
    if not known[host] then left[#left + 1] = host end
  end
  return left
end

-- Takes found.gets of the tasks that were drawn, and puts the others back. Returns their ids, and where some were left to other hosts, these.
function placement.take(P, found, host, now, hungry)
  local taken, back, last, ids, left, leave, near, away = {}, {}, 0, {}, nil, nil, {}, {}
  for i, each in ipairs(found.tasks) do
    each.place = i
    if each.free and #taken < found.gets then
      taken[#taken + 1], ids[#ids + 1], last = each, each.id, i
    else
      back[#back + 1] = each
    end
  end
  hungry = hungry and #taken == found.wants
  local list = list_key(P, found.queue)
  for i = #back, 1, -1 do ids[#ids + 1] = back[i].id end
  if #back > 0 then redis.call('LPUSH', list, unpack(ids, #taken + 1)) end
  -- An entry's number tells whether it has left the queue: see enqueue.lua. Those that others have overtaken are numbered anew.
  local gone = tonumber(redis.call('HGET', queue_key(P, found.queue), 'pushed') or 0) - redis.call('LLEN', list)
  for i, each in ipairs(back) do
    local fields = {}
    if each.place < last then fields[1], fields[2] = 'e', fmt(gone + i) end
    if each.leave and (each.place < last or hungry) then
      if hungry and each.leave ~= leave then left, leave = note_left(left or {}, each.leave), each.leave end
      if not each.since then fields[#fields + 1] = 'pb'; fields[#fields + 1] = fmt(now) end
    end
    if #fields > 0 and each.waits then redis.call('HSET', task_key(P, each.id), unpack(fields)) end
  end
  for i, each in ipairs(taken) do
    if each.place > i and each.waits then redis.call('HDEL', task_key(P, each.id), 'e') end
    if each.key and found.placement == 'sticky' then near[#near + 1] = found.name .. ':' .. each.key; near[#near + 1] = host end
    for _, other in ipairs(each.waits and each.leave or {}) do away[away_field(found.name, other)] = true end
  end
  redis.call('HDEL', P .. ':near', away_field(found.name, host))
  remember(P, near, now + placement.LIFE)
  local late = {}
  for field in pairs(away) do late[#late + 1] = field; late[#late + 1] = fmt(now + placement.AWAY) end
  remember(P, late, now + placement.LIFE)
  if found.placement == 'spread' then redis.call('HSET', spread_key(P, found.name), host, fmt(found.own + #taken)) end
  return {unpack(ids, 1, #taken)}, left
end

-- What a host's list of lambdas takes to be looked through, in units of a host's count: it may be long, and Lua reads each of its bytes.
local function looks_of(list) return 2 + #list / 1600 end

-- A host serves some lambdas: it has its part of those that are spread.
function placement.join_spread(P, name, host, now)
  if registry.settings(P, name).placement ~= 'spread' then return end
  if redis.call('HEXISTS', spread_key(P, name), host) == 1 or looks_left(now) <= 0 then return end
  local counts, looked = spread_over(P, name, host, now)
  redis.call('HSET', spread_key(P, name), host, fmt(least_of(counts, host)))
  placement.left = placement.left - looked
end

-- A lambda is spread from now on: hosts that serve it have their parts at once, and not when they say next what they serve.
function placement.spread(P, name, now)
  if looks_left(now) <= 0 then return end
  local hosts = redis.call('ZRANGE', P .. ':hosts', '(' .. fmt(now), '+inf', 'BYSCORE', 'LIMIT', 0, placement.HOSTS)
  local counts, looked = spread_over(P, name, '', now)
  local least, word = least_of(counts), ' ' .. name .. ' '
  placement.left = placement.left - looked
  for _, host in ipairs(hosts) do
    if placement.left <= 0 then return end
    local serves = redis.call('HGET', P .. ':hosts:run', host) or ''
    placement.left = placement.left - looks_of(serves)
    if string.find(serves, word, 1, true) and redis.call('HEXISTS', spread_key(P, name), host) == 0 then
      redis.call('HSET', spread_key(P, name), host, fmt(least))
    end
  end
end
