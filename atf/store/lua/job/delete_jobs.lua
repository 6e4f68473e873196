-- delete_jobs: deletes jobs, and with them their tasks; of those that run, this run is the last
-- MOVES    cancel: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; run for the last time: CLAIMED, PROCESSING
-- KEYS[1]  the partition's record
-- ARGV     now, then the names
-- RETURNS  per job 1 deleted, 0 there was none, 2 it has more tasks than one call cancels: it is still there, call again
register('delete_jobs', {'allow-oom'}, function(keys, args)
  local P, now, answer, budget = keys[1], instant(args[1]), {}, {left = TICKS_PER_CALL}
  for i = 2, #args do
    local name = args[i]
    local tasks, more = ticks.cancel(P, name, budget, now)
    if more then
      answer[#answer + 1] = 2
    else
      local there = redis.call('DEL', job_key(P, name))
      for _, set in ipairs({':jobs', ':jobs:ended', ':jobnames'}) do redis.call('ZREM', P .. set, name) end
      answer[#answer + 1] = (there == 1 or tasks > 0) and 1 or 0
    end
  end
  return answer
end)
