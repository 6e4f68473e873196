-- pause_job: pauses a job, or lets it go on
-- KEYS[1]  the partition's record
-- ARGV     now, name, 1 paused or 0
-- RETURNS  1 done, 0 no such job
register('pause_job', {'allow-oom'}, function(keys, args)
  local P, name = keys[1], args[2]
  local following = redis.call('HGET', job_key(P, name), 'n')
  if not following or following == '' then return 0 end
  if args[3] == '1' then
    redis.call('HSET', job_key(P, name), 'p', '1')
    redis.call('ZREM', P .. ':jobs', name)
  else
    redis.call('HDEL', job_key(P, name), 'p')
    look_at_job(P, name, tonumber(following))
  end
  return 1
end)
