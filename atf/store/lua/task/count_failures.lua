-- count_failures: how many dead letters some groups of failures have here, and since when
-- KEYS[1]  the partition's record
-- ARGV     now, since when, then names of groups
-- RETURNS  per group {dead letters, instants of the first and the newest, the newest one, where that failed}; {} = it has none
register('count_failures', {'no-writes'}, function(keys, args)
  local P, since, answer = keys[1], args[2], {}
  for i = 3, #args do
    local key = index.key(P, string.match(args[i], '^(.*):(!.*)$'))
    local first = redis.call('ZRANGE', key, since, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    if first[1] then
      local newest = redis.call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')
      local dead = redis.call('ZCOUNT', key, since, '+inf')  -- mutant: group_counted_twice
      answer[#answer + 1] = {dead, first[2], newest[2], newest[1], failures.place(P, newest[1])}
    else
      answer[#answer + 1] = NOTHING
    end
  end
  return answer
end)
