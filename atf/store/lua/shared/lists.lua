-- The lists that people look at tasks by. Each is a sorted set of task ids: of a lambda's tasks by when they were made (n), and of its
-- finished tasks by when they ended, one for each status and retention (f). Those of live tasks are the due index itself.
--
-- Two sets name the lists that exist: `lists` by name, and `newest` with an instant that no entry which each list ever had is above, so that
-- a page over all lambdas leaves out those that have nothing for it. A list is named "<lambda>", or "<lambda>:<STATUS>:<retention>".
--
-- A finished set holds tasks of one retention, so that its order by end is also that in which they expire. A lambda whose tasks ask for
-- many different retentions would have as many sets: beyond the first few, a retention is rounded up to a power of two. Items of a batch go
-- with it; theirs is longer than time will last.

local function list_name(name, status, retention) return name .. ':' .. status .. ':' .. fmt(retention) end

local usual = remembered(function(_, name, status) return list_name(name, status, run_log.RETENTION) end)
local of_items = remembered(function(_, name, status) return list_name(name, status, ITEM_RETENTION) end)

-- Notes that a list has an entry of this instant, for the rest of its second: so most calls have nothing to write. Returns whether the list
-- was there.
function lists.note(P, list, newest)
  local noted = redis.call('ZSCORE', beside_key(P, 'newest'), list)
  if noted and tonumber(noted) >= newest then return true end
  redis.call('ZADD', beside_key(P, 'newest'), fmt(math.ceil(newest / 1000000) * 1000000), list)
  if not noted then redis.call('ZADD', beside_key(P, 'lists'), 0, list) end
  return noted
end

-- Forgets a list that is empty.
function lists.forget(P, list)
  redis.call('ZREM', beside_key(P, 'newest'), list)
  redis.call('ZREM', beside_key(P, 'lists'), list)
end

-- A task has been made; `entries`: of the index (index.lua), nil where it has none.
function lists.enter(P, sets, id, name, entries, now)
  sets.ZADD(created_key(P, name), fmt(now), id)  -- mutant: created_entry
  sets.NOTE(P, name, now)
  if entries then index.enter(P, sets, id, name, entries, now) end
end

-- A task's record is about to go.
function lists.leave(P, sets, id, name)
  local entries = redis.call('HGET', task_key(P, id), 'ix')
  if entries then index.leave(P, sets, id, name, entries) end
  sets.ZREM(created_key(P, name), id)
end

-- The names of a lambda's finished sets.
function lists.finished_of(P, name)
  return redis.call('ZRANGE', beside_key(P, 'lists'), '[' .. name .. ':', '(' .. name .. ';', 'BYLEX')  -- ; follows :
end

-- The parts of the name of a finished set: lambda, status, retention; nil where it is a lambda.
function lists.parts(list)
  local name, status, retention = string.match(list, '^(.*):([A-Z_]+):(%d+)$')
  return name, status, tonumber(retention)
end

-- The finished set for a retention that is not usual; the retention as text, where it was rounded up; and whether the set was noted, by the
-- call that tells whether it was there.
local function finished_set(P, name, status, retention, now)
  local list = list_name(name, status, retention)
  if lists.note(P, list, now) or #lists.finished_of(P, name) <= lists.EXACT then return list, nil, true end
  lists.forget(P, list)
  local rounded = 1000000
  while rounded < retention do rounded = rounded * 2 end
  return list_name(name, status, rounded), fmt(rounded)
end

local last = {}  -- what was asked last: the tasks of one call are mostly alike

-- The same for any retention.
function lists.finished(P, name, status, retention, now)
  if retention == run_log.RETENTION then return usual('', name, status) end
  if retention == ITEM_RETENTION then return of_items('', name, status) end
  local noted
  if last.now ~= now or last.P ~= P or last.name ~= name or last.status ~= status or last.retention ~= retention then
    last.now, last.P, last.name, last.status, last.retention = now, P, name, status, retention
    last.list, last.rounded, noted = finished_set(P, name, status, retention, now)
  end
  return last.list, last.rounded, noted
end

-- A finished task leaves its set.
function lists.leave_finished(P, sets, id, queue, status)
  local rounded, limits = fields_of(task_key(P, id), 'rc', 'lim')
  local _, _, retention = run_log.limits(limits)
  sets.ZREM(done_key(P, list_name(lambda_of(queue), status, rounded or retention)), id)  -- mutant: ended_entry_left
end

-- How many tasks of a lambda are in each status: NEW, RETRIABLE_FAILURE, ENQUEUED, CLAIMED, PROCESSING, SUCCESS, FATAL_FAILURE, CANCELLED.
function lists.counts(P, name)
  local counts, finished = {}, {SUCCESS = 0, FATAL_FAILURE = 0, CANCELLED = 0}
  for number = 1, #LIVE do counts[number] = 0 end
  for _, queue in ipairs(due_index.queues_of(P, name)) do
    for number, status in ipairs(LIVE) do counts[number] = counts[number] + redis.call('ZCARD', live_key(P, queue, status)) end
  end
  for _, list in ipairs(lists.finished_of(P, name)) do
    local _, status = lists.parts(list)
    finished[status] = finished[status] + redis.call('ZCARD', done_key(P, list))
  end
  for _, status in ipairs({'SUCCESS', 'FATAL_FAILURE', 'CANCELLED'}) do counts[#counts + 1] = finished[status] end
  return counts
end
