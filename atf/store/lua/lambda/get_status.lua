-- get_status: how some lambdas stand in this partition, for people
-- KEYS[1]  the partition's record
-- ARGV     now, how long ago a failure counts as recent, then the lambdas
-- RETURNS  now, when finished tasks last went before their retention (0: they never did), then per lambda that has unfinished tasks or dead letters: its number in
--          ARGV from 0, tasks that are due and wait, that are due later, that run, since when the first of those that wait is due (0: none),
--          dead letters, how many of these failed recently, the newest of them ("": none), and when that failed

-- Tasks of one queue that wait: counted, and the first of them looked at.
local function look(P, queue, now, found)
  for _, status in ipairs({'NEW', 'RETRIABLE_FAILURE'}) do
    local set = live_key(P, queue, status)
    local all, due = redis.call('ZCARD', set), redis.call('ZCOUNT', set, '-inf', fmt(now))
    found.due, found.later = found.due + due, found.later + all - due
    if due > 0 then found.since = math.min(found.since, tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2])) end
  end
  local queued = live_key(P, queue, 'ENQUEUED')
  local count = redis.call('ZCARD', queued)
  if count > 0 then
    local first = redis.call('HGET', task_key(P, redis.call('ZRANGE', queued, 0, 0)[1]), 't2')
    found.due, found.since = found.due + count, math.min(found.since, tonumber(first or now))
  end
  for _, status in ipairs({'CLAIMED', 'PROCESSING'}) do
    found.running = found.running + redis.call('ZCARD', live_key(P, queue, status))
  end
end

-- A lambda's dead letters: how many, how many of them failed since an instant, the newest, and when that failed.
local function dead_letters(P, name, since)
  local dead, recent, newest, failed_at = 0, 0, '', 0
  for _, list in ipairs(lists.finished_of(P, name)) do
    local _, status = lists.parts(list)
    local set = status == 'FATAL_FAILURE' and done_key(P, list)
    local last = set and redis.call('ZRANGE', set, 0, 0, 'REV', 'WITHSCORES') or NOTHING
    if last[1] then
      dead, recent = dead + redis.call('ZCARD', set), recent + redis.call('ZCOUNT', set, fmt(since), '+inf')
      if tonumber(last[2]) > failed_at then newest, failed_at = last[1], tonumber(last[2]) end
    end
  end
  return dead, recent, newest, fmt(failed_at)
end

register('get_status', {'no-writes'}, function(keys, args)
  local P, now, span, answer = keys[1], instant(args[1]), tonumber(args[2]), {}
  for i = 3, #args do
    local queues = due_index.queues_of(P, args[i])
    local dead, recent, newest, failed_at = dead_letters(P, args[i], now - span)
    if #queues > 0 or dead > 0 then
      local found = {due = 0, later = 0, running = 0, since = math.huge}
      for _, queue in ipairs(queues) do look(P, queue, now, found) end
      local since = found.since < math.huge and fmt(found.since) or '0'
      for _, each in ipairs({i - 3, found.due, found.later, found.running, since, dead, recent, newest, failed_at}) do answer[#answer + 1] = each end
    end
  end
  return {fmt(now), redis.call('HGET', P, 'early') or '0', answer}
end)
