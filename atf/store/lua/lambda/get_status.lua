-- get_status: how some lambdas stand in this partition, for people
-- KEYS[1]  the partition's record
-- ARGV     now, how long ago a failure counts as recent, then the lambdas in the order of the bytes of their names, each with a colon behind it
-- RETURNS  now, when finished tasks last went before their retention (0: they never did), then per lambda that has tasks: its number in ARGV from 0, tasks that
--          are due and wait, since when the first of those is due (0: none), how many dead letters failed recently, the newest of all ("": none),
--          and when that failed; then how many tasks are in each status: NEW, RETRIABLE_FAILURE, ENQUEUED, CLAIMED, PROCESSING, SUCCESS, FATAL_FAILURE, CANCELLED
local RETRIABLE, ENQUEUED = 2, 3  -- numbers in LIVE: those before these are due or not
local FINISHED_AT = {SUCCESS = 6, FATAL_FAILURE = 7, CANCELLED = 8}  -- behind those in LIVE

-- Since when the first task of a queue stands there. The set of those tasks is in the order in which they are looked at again, which is not that
-- of their waits: a task that still stands there gets a new instant.
local function pushed_first(P, queue, set, now)
  local head = redis.call('LINDEX', list_key(P, queue), 0)
  local status, pushed_at = false, false
  if head then status, pushed_at = fields_of(task_key(P, head), 's', 't2') end
  if status == 'ENQUEUED' and pushed_at then return tonumber(pushed_at) end
  return tonumber(redis.call('HGET', task_key(P, redis.call('ZRANGE', set, 0, 0)[1]), 't2') or now)
end

-- Tasks of one queue: counted, and of those that wait the first one looked at.
local function look(P, queue, now, found, counts)
  for number, status in ipairs(LIVE) do
    local set = live_key(P, queue, status)
    local here = redis.call('ZCARD', set)
    counts[number] = counts[number] + here
    local due = here > 0 and number <= RETRIABLE and redis.call('ZCOUNT', set, '-inf', fmt(now)) or 0
    if due > 0 then
      found.due, found.since = found.due + due, math.min(found.since, tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]))
    end
    if here > 0 and number == ENQUEUED then
      found.due, found.since = found.due + here, math.min(found.since, pushed_first(P, queue, set, now))
    end
  end
end

-- The finished sets of some lambdas, which stand in their order: by lambda {list, status, ...}. One call reads what stands from the first to the last.
local function finished_of(P, first, last)
  local found = {}
  for _, list in ipairs(redis.call('ZRANGE', beside_key(P, 'lists'), '[' .. first .. ':', '(' .. last .. ';', 'BYLEX')) do  -- ; follows :
    local name, status = lists.parts(list)
    if name then
      local of = found[name] or {}
      found[name], of[#of + 1], of[#of + 2] = of, list, status
    end
  end
  return found
end

-- A lambda's finished tasks: counted, and the newest of the dead letters looked at.
local function look_at_finished(P, finished, since, found, counts)
  for i = 1, #finished, 2 do
    local set, status = done_key(P, finished[i]), finished[i + 1]
    local here = redis.call('ZCARD', set)
    counts[FINISHED_AT[status]] = counts[FINISHED_AT[status]] + here  -- mutant: counts_one_retention
    if here > 0 and status == 'FATAL_FAILURE' then
      local last = redis.call('ZRANGE', set, 0, 0, 'REV', 'WITHSCORES')
      local failed_at = tonumber(last[2])
      if failed_at >= since then found.recent = found.recent + redis.call('ZCOUNT', set, fmt(since), '+inf') end
      if failed_at > found.failed_at then found.newest, found.failed_at = last[1], failed_at end
    end
  end
end

register('get_status', {'no-writes'}, function(keys, args)
  local P, now, span, answer = keys[1], instant(args[1]), tonumber(args[2]), {}
  local finished = args[3] and finished_of(P, args[3], args[#args])
  for i = 3, #args do
    local found, counts = {due = 0, since = math.huge, recent = 0, newest = '', failed_at = 0}, {0, 0, 0, 0, 0, 0, 0, 0}
    for _, queue in ipairs(due_index.queues_of(P, args[i])) do look(P, queue, now, found, counts) end
    look_at_finished(P, finished[args[i]] or NOTHING, now - span, found, counts)
    local all = 0
    for _, count in ipairs(counts) do all = all + count end
    if all > 0 then
      local since = found.since < math.huge and fmt(found.since) or '0'
      for _, each in ipairs({i - 3, found.due, since, found.recent, found.newest, fmt(found.failed_at)}) do answer[#answer + 1] = each end
      for _, count in ipairs(counts) do answer[#answer + 1] = count end
    end
  end
  return {fmt(now), redis.call('HGET', P, 'early') or '0', answer}
end)
