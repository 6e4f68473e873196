-- Dead letters that failed alike: in one set of the index (index.lua), by when they failed. Its entry is "!" and the group's id, which is made of the
-- lambda and of the cause: type of the exception, file and function of the last line of the user's own code. Lines move with each release, and
-- folders with each deploy, so of the place neither the line nor more than the last two parts of the file's path count.
--
-- `groups` names those that have dead letters, "<lambda>:!<group>", with the instant of the newest.
local GROUP = 33  -- the byte !
local LIBRARIES = {'/site%-packages/', '/dist%-packages/', '/lib/python%d', '^<'}

local function is_library(file)
  for _, each in ipairs(LIBRARIES) do
    if string.find(file, each) then return true end
  end
  return false
end

-- The package of an installed file, as far as its folder; nil: it is none.
local function package_of(file) return string.match(file, '^.*[et]%-packages/[^/]+') end

-- Where a traceback ends in the user's own code, as "file:function". The first frame is the lambda, or a hook of the app: what lies in its
-- package is the user's, too, where the app itself is installed.
local function find_place(trace)
  local own, first, last
  for line in string.gmatch(trace, '[^\n]+') do
    local file, inside = string.match(line, '^  File "(.-)", line %d+, in (.+)$')
    if file then
      last = string.match(file, '[^/]+/[^/]+$') or file
      last = last .. ':' .. inside
      first = first or package_of(file) or ''
      if not is_library(file) or first ~= '' and package_of(file) == first then own = last end
    elseif not string.find(line, '^  ') then
      break  -- what caused it, or its notes
    end
  end
  return own or last or ''
end

-- The same; mostly many tasks fail alike, and nothing but their messages differs.
local last_trace, last_place
local function place_of(trace)
  if trace ~= last_trace then last_trace, last_place = trace, find_place(trace) end
  return last_place
end

-- What an error is grouped by. Of one without a traceback: its first line, with # for numbers, since a timeout or a count varies.
local function cause_of(err)
  local said, trace = string.match(err, '^(.-)\nTraceback %(most recent call last%):\n(.*)$')
  if not said then return (string.gsub(string.match(err, '^[^\n]*'), '%d[%d.]*', '#')) end
  return string.match(said, '^%s*[%w_]*') .. '\n' .. place_of(trace)
end

-- Twelve hexadecimal digits of a text. No server is asked for a digest, since fakeredis has none.
local last_text, last_hash
local function short_hash(text)
  if text == last_text then return last_hash end
  local high, low = 0, 1
  for i = 1, #text do
    local byte = string.byte(text, i)
    high, low = (high * 257 + byte) % 16777213, (low * 263 + byte) % 16777199
  end
  last_text, last_hash = text, string.format('%06x%06x', high, low)
  return last_hash
end

-- Where a dead letter failed, in the user's own code; "" = nowhere, or there is no such task.
function failures.place(P, id)
  return string.match(cause_of(record.get(P, id, 'err', redis.call('HGET', task_key(P, id), 'err')) or ''), '\n(.*)$') or ''
end

-- A task has failed for good.
function failures.enter(P, id, name, now)
  local err, entries = fields_of(task_key(P, id), 'err', 'ix')
  local group = '!' .. short_hash(name .. '\n' .. cause_of(record.get(P, id, 'err', err) or ''))
  redis.call('HSET', task_key(P, id), 'ix', entries and entries .. ' ' .. group or group)
  redis.call('ZADD', index.key(P, name, group), fmt(now), id)
  redis.call('ZADD', beside_key(P, 'groups'), 'GT', fmt(now), name .. ':' .. group)
end

-- Whether an entry of the index is a group.
function failures.is_group(entry) return string.byte(entry) == GROUP end

-- A dead letter leaves its group, which is as new now as the newest that is left, or gone.
function failures.leave(P, id, name, group)
  redis.call('ZREM', index.key(P, name, group), id)  -- mutant: group_keeps_what_was_retried
  local newest = redis.call('ZRANGE', index.key(P, name, group), 0, 0, 'REV', 'WITHSCORES')
  if newest[1] then
    redis.call('ZADD', beside_key(P, 'groups'), newest[2], name .. ':' .. group)
  else
    redis.call('ZREM', beside_key(P, 'groups'), name .. ':' .. group)
  end
end

-- A task that starts afresh is no dead letter any more.
function failures.forget(P, id, name)
  local entries = redis.call('HGET', task_key(P, id), 'ix') or ''
  local group = string.match(entries, '!%S+')
  if not group then return end
  failures.leave(P, id, name, group)
  local left = string.gsub(entries, '%s*!%S+', '')
  if left == '' then redis.call('HDEL', task_key(P, id), 'ix') else redis.call('HSET', task_key(P, id), 'ix', left) end
end
