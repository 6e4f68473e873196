-- delete_jobs: deletes jobs; a tick that has become a task stays one
-- KEYS[1]  the partition's record
-- ARGV     now, then the names
-- RETURNS  per job 1 deleted, 0 there was none
register('delete_jobs', {'allow-oom'}, function(keys, args)
  local P, answer = keys[1], {}
  for i = 2, #args do
    answer[#answer + 1] = redis.call('DEL', job_key(P, args[i]))
    for _, set in ipairs({':jobs', ':jobs:ended', ':jobnames'}) do redis.call('ZREM', P .. set, args[i]) end
  end
  return answer
end)
