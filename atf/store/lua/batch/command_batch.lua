-- command_batch: has all items of a batch cancelled, those that failed for good started afresh, or all of it deleted
-- MOVES    cancel: NEW, ENQUEUED, RETRIABLE_FAILURE -> CANCELLED; cancel a running task: CLAIMED, PROCESSING;
--          retry: FATAL_FAILURE -> NEW
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, "cancel", "retry" or "delete", scopes ("" = all; see scopes.lua)
-- RETURNS  0 it is being done, 1 there is nothing to do, 2 there is no such batch, 3 it was cancelled, 4 it has not ended
register('command_batch', {'allow-oom'}, function(keys, args)
  local P, now, batch, what = keys[1], instant(args[1]), args[2], args[3]
  local key = batches.key(P, batch)
  local version, deleting, ended, cancelled, sums, name = fields_of(key, 'v', 'deleting', 'ended', 'cancelled', 'sums', 'l')
  if not version or not scopes.has(scopes.read(args[4]), name) then return 2 end
  if deleting then return what == 'delete' and 1 or 2 end
  if what == 'delete' then
    if not ended then return 4 end
    batches.delete(P, batch, now)
  elseif what == 'cancel' then
    if ended or cancelled then return 1 end
    redis.call('HSET', key, 'cancelled', '1', 'sealed', '1')
    batches.walk(P, batch, what, now)
  else
    if cancelled then return 3 end
    if ended then
      if string.match(sums, '^%d+ %d+ (%d+)') == '0' then return 1 end
      batches.goes_on(P, batch, now)
      redis.call('HINCRBY', key, 'round', 1)
    end
    batches.walk(P, batch, what, now)
  end
  return 0
end)
