-- lambdas: every lambda's record
-- KEYS[1]  the home partition's record
-- ARGV     now
-- RETURNS  {name, spec, queue limit, enqueue timeout, "1" = paused, settings by the code, settings by an operator, gates}, ...
register('lambdas', {'no-writes'}, function(keys)
  local P, answer = keys[1], {}
  for _, name in ipairs(redis.call('SMEMBERS', P .. ':lambdas')) do
    local record = redis.call('HMGET', lambda_key(P, name), 'spec', 'limit', 'timeout', 'paused', 'code', 'set', 'gates')
    answer[#answer + 1] = {name, record[1], record[2], record[3], record[4] or '0', record[5] or '', record[6] or '', record[7] or ''}
  end
  return answer
end)
