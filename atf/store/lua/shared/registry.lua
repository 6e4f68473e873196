-- What a partition knows of lambdas. The registry partition, 0, writes it first, and adds it to its outbox for the others.

-- A lambda's settings as a table; as text they are "name=value name=value".
function registry.settings_of(text)
  local found = {}
  for name, value in string.gmatch(text or '', '([a-z_]+)=(%S*)') do found[name] = value end
  return found
end

function registry.settings(P, name) return registry.settings_of(redis.call('HGET', lambda_key(P, name), 'settings')) end

-- Whether tasks of a lambda may be given to a pool now; how it says that they are to be placed, where it does; and the limit of its queues.
function registry.gives_to(P, name, pool)
  local paused, text, limit = fields_of(lambda_key(P, name), 'paused', 'settings', 'limit')
  local settings = text and registry.settings_of(text) or NOTHING
  return paused ~= '1' and (settings.pool or '') == pool, settings.placement, tonumber(limit or DEFAULT_QUEUE_LIMIT)
end

-- Of which versions a partition knows a lambda's settings and gates.
function registry.versions_of(P, name)
  local of_settings, of_gates = fields_of(lambda_key(P, name), 'rv', 'gv')
  return tonumber(of_settings or 0), tonumber(of_gates or 0)
end

-- Writes what holds of a lambda within one partition. The queue's limit and timeout have fields of their own, which every visit
-- reads; all else is the field `settings`, which most lambdas don't have.
function registry.put(P, name, limit, timeout, text, version, now)
  local key = lambda_key(P, name)
  local limit_before, timeout_before, text_before = fields_of(key, 'limit', 'timeout', 'settings')
  local settings, settings_before = registry.settings_of(text), registry.settings_of(text_before)
  redis.call('HSET', key, 'limit', limit, 'timeout', timeout, 'rv', version)
  if text ~= '' then redis.call('HSET', key, 'settings', text) elseif text_before then redis.call('HDEL', key, 'settings') end
  local changed = (text_before or '') ~= text
  if limit_before ~= limit or timeout_before ~= timeout or changed then due_index.visit_lambda(P, name, now) end
  if changed then
    limits_ledger.settings_changed(P, name, now)
    if settings.placement == 'spread' then placement.spread(P, name, now) end
  end
  local watched, watched_before = settings.fatal ~= nil, settings_before.fatal ~= nil
  if watched ~= watched_before then redis.call('HINCRBY', P, 'watched', watched and 1 or -1) end
  local logged, logged_before = settings.logs ~= nil, settings_before.logs ~= nil
  if logged ~= logged_before then redis.call('HINCRBY', P, 'logged', logged and 1 or -1) end
end

local KEPT_ELSEWHERE = {limit = true, timeout = true, owner = true, runbook = true}

-- Writes what holds of a lambda in the registry partition, and adds it to the outbox for the others: what an operator set (`set`) goes before what
-- the code says (`code`), "-" lifts that. `gates`: the text of its gates, for those that do not know the lambda yet; nil: they know them.
function registry.write(P, name, spec, code, set, gates, partitions, now)
  local holds_now, names, texts_of = registry.settings_of(code), {}, {}
  for each, value in pairs(registry.settings_of(set)) do holds_now[each] = value end
  for each, value in pairs(holds_now) do
    if value ~= '-' and not KEPT_ELSEWHERE[each] then names[#names + 1] = each end
  end
  table.sort(names)
  for i, each in ipairs(names) do texts_of[i] = each .. '=' .. holds_now[each] end
  local text = table.concat(texts_of, ' ')
  local version = grown(P, 'lambda_version', now)
  registry.put(P, name, holds_now.limit, holds_now.timeout, text, version, now)
  if gates then redis.call('HSET', lambda_key(P, name), 'gv', version) end  -- as the others know it
  outbox.add_for_others(P, partitions, version .. outbox.words('register', name, spec, holds_now.limit, holds_now.timeout, text, gates), now)
end

-- Forgets a lambda within one partition. Dead letters and records stay until their retention is over.
function registry.forget(P, name)
  local settings = registry.settings(P, name)
  if settings.fatal ~= nil then redis.call('HINCRBY', P, 'watched', -1) end
  if settings.logs ~= nil then redis.call('HINCRBY', P, 'logged', -1) end
  redis.call('SREM', P .. ':lambdas', name)
  redis.call('ZREM', P .. ':gates', name)
  due_index.forget(P, name)
  redis.call('DEL', lambda_key(P, name), P .. ':g:' .. name, P .. ':e:' .. name, P .. ':p:' .. name, P .. ':h:' .. name, P .. ':spread:' .. name)
end

-- Pauses or resumes a lambda within one partition, and has what waits for it looked at.
function registry.set_paused(P, name, paused, now)
  local before = redis.call('HGET', lambda_key(P, name), 'paused')
  redis.call('HSET', lambda_key(P, name), 'paused', paused)
  if paused == '1' or before == '1' then gate_records.note_pause(P, name, before == '1', paused == '1', now) end
  due_index.visit_lambda(P, name, now)
  if before ~= '1' or paused == '1' then return end
  redis.call('DEL', P .. ':e:' .. name)  -- what has failed before it was resumed no longer counts
  for priority = 0, MAX_PRIORITY do redis.call('SPUBLISH', P .. ':notify:ready', name .. ':' .. priority) end
end

-- Asks the registry partition of a lambda that this one does not know, since it may be known there where this server was emptied: of all of them, where
-- it knows none. There is one such question at a time; the queue is visited again, and asks anew.
function registry.ask_of(P, name, now)
  local partitions, asked = fields_of(P, 'partitions', 'asked')
  if partitions == '1' or number_of(P) == '0' then return end
  if asked and redis.call('HEXISTS', P .. ':outbox', asked) == 1 then return end
  local only = redis.call('EXISTS', P .. ':lambdas') == 1 and name or ''
  redis.call('HSET', P, 'asked', outbox.add(P, 0, '0' .. outbox.words('resync', '', only), now))
end

-- Takes some of the oldest out of the audit log. Returns the bytes that they had.
local function forget(log, old)
  local bytes = 0
  for _, each in ipairs(old) do bytes = bytes + #each end
  if #old > 0 then redis.call('ZREM', log, unpack(old)) end
  return bytes
end

-- Adds to the audit log, which keeps the newest: `args` are the entries, from the second one on. `full`: in the places of as many of the oldest.
-- Entries that name many tasks are long, so the log is bounded in bytes, too.
function registry.audit(P, now, args, full)
  local log, number = P .. ':audit', redis.call('HINCRBY', P, 'audited', #args - 1)
  local old = full and redis.call('ZRANGE', log, 0, #args - 2)
    or redis.call('ZRANGE', log, '-inf', number - AUDIT_KEPT, 'BYSCORE', 'LIMIT', 0, #args + 15)
  local grown = -forget(log, old)
  for i = 2, #args do
    local own = number - #args + i
    local entry = fmt(own) .. ' ' .. fmt(now) .. '\n' .. args[i]
    redis.call('ZADD', log, own, entry)  -- mutant: audit_line_dropped
    grown = grown + #entry
  end
  if redis.call('HINCRBY', P, 'auditb', grown) > AUDIT_BYTES then
    redis.call('HINCRBY', P, 'auditb', -forget(log, redis.call('ZRANGE', log, 0, 16 * #args - 17)))
  end
end
