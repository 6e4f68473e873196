-- open_batch: makes a batch, or finds it
-- KEYS[1]  the batch partition's record
-- ARGV     now, batch, digest of its description ("" = whichever it has), description, lambda, retention, number of partitions, 1 = all
--          its items lie here, 1 = it is to be extended, scopes of which a batch that exists must be ("" = all; see scopes.lua)
-- RETURNS  what, items in all (-1 = more may come), prefix, number of the first item of an extension, 1 = all its items lie here, description:
--          what is 0 made, 1 there, 2 there with another description, 3 there is none, 4 it was cancelled, 5 it was deleted
register('open_batch', {}, function(keys, args)
  local P, now, batch, wanted = keys[1], instant(args[1]), args[2], args[3]
  local key = batches.key(P, batch)
  local digest, gone, deleting, cancelled, main, extra, next_number, prefix, alone, spec, name =
    fields_of(key, 'd', 'gone', 'deleting', 'cancelled', 'main', 'extra', 'next', 'prefix', 'alone', 'spec', 'l')
  if not digest then
    if wanted == '' or args[9] == '1' then return {3, -1, 0, 0, 0, ''} end
    redis.call('HSET', key, 'd', wanted, 'spec', args[4], 'l', args[5], 'ret', args[6], 'partitions', args[7], 'alone', args[8],
      'at', fmt(now), 'v', '1', 'wv', '0', 'round', '1')
    redis.call('ZADD', P .. ':batches', fmt(-now), batch)
    batches.goes_on(P, batch, now)
    return {0, -1, 0, 0, tonumber(args[8]), args[4]}
  end
  if wanted == '' and not scopes.has(scopes.read(args[10]), name) then return {3, -1, 0, 0, 0, ''} end
  local what = 1
  if wanted ~= '' and wanted ~= digest then
    what = 2
  elseif gone or deleting then
    what = 5
  elseif cancelled then
    what = 4
  end
  local total = main and tonumber(main) + tonumber(extra or 0) or -1
  return {what, total, tonumber(prefix or 0), tonumber(next_number or main or batches.EXTRA_FIRST), tonumber(alone or 0), spec or ''}
end)
