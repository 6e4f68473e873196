-- list_jobs: a page of the names of jobs that have not ended, in their order
-- KEYS[1]  the partition's record
-- ARGV     now, prefix, the name seen last ("" = from the start), names at most
-- RETURNS  names
register('list_jobs', {'no-writes'}, function(keys, args)
  local P, prefix, last = keys[1], args[2], args[3]
  local from = last ~= '' and '(' .. last or '[' .. prefix
  return redis.call('ZRANGE', P .. ':jobnames', from, '[' .. prefix .. '\255', 'BYLEX', 'LIMIT', 0, args[4])
end)
