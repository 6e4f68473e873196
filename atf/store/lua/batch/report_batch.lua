-- report_batch: tells the batch partition how a part of it stands
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, the part's partition, its report ("" = it is gone)
-- RETURNS  1 heard, 0 something newer was heard before
register('report_batch', {'allow-oom'}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  if args[4] == '' then return batches.part_gone(P, args[2], args[3], now) end
  return batches.report(P, args[2], args[3], args[4], now)
end)
