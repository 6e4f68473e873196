-- What a partition knows of lambdas. The registry partition, 0, writes it first, and adds it to its outbox for the others.

-- A lambda's settings as a table; as text they are "name=value name=value".
function registry.settings_of(text)
  local found = {}
  for name, value in string.gmatch(text or '', '([a-z_]+)=(%S*)') do found[name] = value end
  return found
end

-- Whether tasks of a lambda may be given to a pool now; and how it says that they are to be placed, where it does.
function registry.gives_to(P, name, pool)
  local config = redis.call('HMGET', lambda_key(P, name), 'paused', 'door')
  local settings = config[2] and registry.settings_of(config[2]) or NOTHING
  return config[1] ~= '1' and (settings.pool or '') == pool, settings.placement
end

-- Of which versions a partition knows a lambda's settings and gates.
function registry.versions_of(P, name)
  local known = redis.call('HMGET', lambda_key(P, name), 'rv', 'gv')
  return tonumber(known[1] or 0), tonumber(known[2] or 0)
end

-- Writes what holds of a lambda within one partition. The queue's limit and timeout have fields of their own, which every visit
-- reads; all else is the field `door`, which most lambdas don't have.
function registry.put(P, name, limit, timeout, door, version, now)
  local key = lambda_key(P, name)
  local known = redis.call('HMGET', key, 'limit', 'timeout', 'door')
  redis.call('HSET', key, 'limit', limit, 'timeout', timeout, 'rv', version)
  if door ~= '' then redis.call('HSET', key, 'door', door) elseif known[3] then redis.call('HDEL', key, 'door') end
  if known[1] ~= limit or known[2] ~= timeout or (known[3] or '') ~= door then due_index.visit_lambda(P, name, now) end
  if (known[3] or '') ~= door then
    limits_ledger.settings_changed(P, name, now)
    if registry.settings_of(door).placement == 'spread' then placement.spread(P, name, now) end
  end
  local watched, watched_before = registry.settings_of(door).fatal ~= nil, registry.settings_of(known[3]).fatal ~= nil
  if watched ~= watched_before then redis.call('HINCRBY', P, 'watched', watched and 1 or -1) end
end

local NOT_OF_THE_DOOR = {limit = true, timeout = true, owner = true, runbook = true}

-- Writes what holds of a lambda in the registry partition, and adds it to the outbox for the others: what an operator set (`set`) goes before what
-- the code says (`code`), "-" lifts that. `gates`: the text of its gates, for those that do not know the lambda yet; nil: they know them.
function registry.write(P, name, spec, code, set, gates, home, partitions, now)
  local holds_now, names, door = registry.settings_of(code), {}, {}
  for each, value in pairs(registry.settings_of(set)) do holds_now[each] = value end
  for each, value in pairs(holds_now) do
    if value ~= '-' and not NOT_OF_THE_DOOR[each] then names[#names + 1] = each end
  end
  table.sort(names)
  for i, each in ipairs(names) do door[i] = each .. '=' .. holds_now[each] end
  door = table.concat(door, ' ')
  local version = grown(P, 'lambda_version', now)
  registry.put(P, name, holds_now.limit, holds_now.timeout, door, version, now)
  if gates then redis.call('HSET', lambda_key(P, name), 'gv', version) end  -- as the others know it
  local strings = {'register', name, spec, holds_now.limit, holds_now.timeout, door, gates}
  local body = version .. '\n["' .. table.concat(strings, '","') .. '"]'  -- nothing in them needs to be escaped
  for target = 0, partitions - 1 do
    if target ~= home then outbox.add(P, target, body, now) end
  end
end

-- Forgets a lambda within one partition. Dead letters and records stay until their retention is over.
function registry.forget(P, name)
  if registry.settings_of(redis.call('HGET', lambda_key(P, name), 'door') or nil).fatal ~= nil then redis.call('HINCRBY', P, 'watched', -1) end
  redis.call('SREM', P .. ':lambdas', name)
  redis.call('ZREM', P .. ':gates', name)
  redis.call('DEL', lambda_key(P, name), P .. ':g:' .. name, P .. ':e:' .. name, P .. ':p:' .. name, P .. ':h:' .. name, P .. ':spread:' .. name)
end

-- Pauses or resumes a lambda within one partition, and has what waits for it looked at.
function registry.set_paused(P, name, paused, now)
  local before = redis.call('HGET', lambda_key(P, name), 'paused')
  redis.call('HSET', lambda_key(P, name), 'paused', paused)
  due_index.visit_lambda(P, name, now)
  if before ~= '1' or paused == '1' then return end
  redis.call('DEL', P .. ':e:' .. name)  -- what has failed before it was resumed no longer counts
  for priority = 0, MAX_PRIORITY do redis.call('SPUBLISH', P .. ':bell:ready', name .. ':' .. priority) end
end

-- Asks the registry partition of a lambda that this one does not know, since it may be known there where this server was emptied: of all of them, where
-- it knows none. There is one such question at a time; the queue is visited again, and asks anew.
function registry.ask_of(P, name, now)
  local record = redis.call('HMGET', P, 'partitions', 'asked')
  if record[1] == '1' or string.sub(P, 6, -2) == '0' then return end
  if record[2] and redis.call('HEXISTS', P .. ':outbox', record[2]) == 1 then return end
  local only = redis.call('EXISTS', P .. ':lambdas') == 1 and name or ''
  redis.call('HSET', P, 'asked', outbox.add(P, 0, '0\n["resync","","' .. only .. '"]', now))
end
