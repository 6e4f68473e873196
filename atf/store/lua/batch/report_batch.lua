-- report_batch: how a part of a batch stands, in the batch partition
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, the part's partition, its report ("" = it is gone)
-- RETURNS  1 noted, 0 something newer was noted before
register('report_batch', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  if args[4] == '' then return batches.part_gone(P, args[2], args[3], now) end
  return batches.report(P, args[2], args[3], args[4], now)
end)
