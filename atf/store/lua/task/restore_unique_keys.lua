-- restore_unique_keys: opens windows of unique keys that an export tells of
-- KEYS[1]  the partition's record
-- ARGV     now, then per window: lambda:key, its task, its end
-- RETURNS  per window 1 open from now on, 0 it has ended by now, or one of its key is open
register('restore_unique_keys', {}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  for i = 2, #args, 3 do
    local until_ = tonumber(redis.call('ZSCORE', P .. ':uniques:expiry', args[i]) or 0)
    local opens = tonumber(args[i + 2]) > now and until_ <= now
    if opens then
      redis.call('HSET', P .. ':uniques', args[i], args[i + 1])
      redis.call('ZADD', P .. ':uniques:expiry', args[i + 2], args[i])
    end
    answer[#answer + 1] = opens and 1 or 0
  end
  return answer
end)
