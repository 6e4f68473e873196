-- first_time: says whether a task is the first that asked for a key; an expired key is nobody's
-- KEYS[1]  the partition's record
-- ARGV     now, then per key: its name, the task, how long it is kept
-- RETURNS  per key 1 this task asked first, now or before; 0 another one did
register('first_time', {}, function(keys, args)
  local P, now, answer = keys[1], instant(args[1]), {}
  local firsts, expiry = P .. ':firsts', P .. ':firsts:expiry'
  for i = 2, #args, 3 do
    local until_ = redis.call('ZSCORE', expiry, args[i])
    if until_ and tonumber(until_) > now then
      answer[#answer + 1] = redis.call('HGET', firsts, args[i]) == args[i + 1] and 1 or 0  -- mutant: first_for_everybody
    else
      redis.call('HSET', firsts, args[i], args[i + 1])
      redis.call('ZADD', expiry, fmt(now + tonumber(args[i + 2])), args[i])
      answer[#answer + 1] = 1
    end
  end
  return answer
end)
