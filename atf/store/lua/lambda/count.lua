-- count: how many tasks of a lambda are in each status; exact, since each set is
-- KEYS[1]  the partition's record
-- ARGV     now, then the lambdas
-- RETURNS  per lambda the counts of NEW, RETRIABLE_FAILURE, ENQUEUED, CLAIMED, PROCESSING, SUCCESS, FATAL_FAILURE, CANCELLED
register('count', {'no-writes'}, function(keys, args)
  local P, answer = keys[1], {}
  for i = 2, #args do answer[#answer + 1] = lists.counts(P, args[i]) end
  return answer
end)
