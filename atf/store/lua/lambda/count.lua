-- count: how many tasks of a lambda are in each status; exact, since each set is
-- KEYS[1]  the partition's record
-- ARGV     now, then the lambdas
-- RETURNS  per lambda the counts of NEW, RETRIABLE_FAILURE, ENQUEUED, CLAIMED, PROCESSING, SUCCESS, FATAL_FAILURE, CANCELLED
register('count', {'no-writes'}, function(keys, args)
  local P, answer = keys[1], {}
  for i = 2, #args do
    local counts = {}
    for _, status in ipairs(LIVE) do
      local sum, sets = 0, due_index.sets_of(P, args[i], {status})
      if redis.call('EXISTS', unpack(sets)) > 0 then  -- mostly not: one call instead of one per priority
        for _, set in ipairs(sets) do sum = sum + redis.call('ZCARD', set) end
      end
      counts[#counts + 1] = sum
    end
    for _, status in ipairs({'SUCCESS', 'FATAL_FAILURE', 'CANCELLED'}) do
      counts[#counts + 1] = redis.call('ZCARD', done_key(P, args[i], status))
    end
    answer[#answer + 1] = counts
  end
  return answer
end)
