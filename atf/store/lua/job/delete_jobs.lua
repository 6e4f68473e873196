-- delete_jobs: deletes jobs, and with them their tasks; of those that run, this run is the last
-- MOVES    cancel: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; run for the last time: CLAIMED, PROCESSING
-- KEYS[1]  the partition's record
-- ARGV     now, then per job: name, the generation that is to be deleted ("" = whichever it has)
-- RETURNS  per job 1 deleted, 0 there was none, or it is of another generation, 2 it has more tasks than one call cancels: it is still there,
--          call again
register('delete_jobs', {'allow-oom'}, function(keys, args)
  local P, now, answer, budget = keys[1], instant(args[1]), {}, {left = TICKS_PER_CALL}
  for i = 2, #args, 2 do
    local name, bound = args[i], args[i + 1]
    local is_other = bound ~= '' and redis.call('HGET', job_key(P, name), 'g') ~= bound
    local tasks, more
    if not is_other then tasks, more = ticks.cancel(P, name, budget, now) end
    if is_other then
      answer[#answer + 1] = 0
    elseif more then
      answer[#answer + 1] = 2
    else
      local there = redis.call('DEL', job_key(P, name))
      for _, set in ipairs({':jobs', ':jobs:ended', ':jobnames'}) do redis.call('ZREM', P .. set, name) end
      answer[#answer + 1] = (there == 1 or tasks > 0) and 1 or 0
    end
  end
  return answer
end)
