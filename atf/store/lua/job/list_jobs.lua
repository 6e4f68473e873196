-- list_jobs: a page of the names of jobs that have not ended, in their order; or of those that have live tasks
-- KEYS[1]  the partition's record
-- ARGV     now, prefix, the name seen last ("" = from the start), names at most, 1 = of those that have live tasks
-- RETURNS  names
register('list_jobs', {'no-writes'}, function(keys, args)
  local P, prefix, last = keys[1], args[2], args[3]
  local from = last ~= '' and '(' .. last or '[' .. prefix
  return redis.call('ZRANGE', P .. (args[5] == '1' and ':ticking' or ':jobnames'), from, '[' .. prefix .. '\255', 'BYLEX', 'LIMIT', 0, args[4])
end)
