-- list_hosts: the worker hosts that are alive
-- KEYS[1]  the partition's record
-- ARGV     now, how many at most
-- RETURNS  now, {host, until when it counts as alive, its pool and what it sets aside: "pool=<pool> executors=<number> <lambda>=<until> ...",
--          "<lambda> <digest> <digest> ..." of each lambda that it serves and of which live executors run several signatures, between commas,
--          until when it drains ("" = it does not, "0" = until that is ended), why no worker can start there ("" = they can, "=" = they start), ...}
local ASKED = 64  -- such lambdas at most

-- Lambdas of which live executors of a pool run several signatures.
local function of_several(P, now)
  local found, said = {}, redis.call('HGETALL', P .. ':signatures')
  for i = 1, #said, 2 do
    local alive = {}
    for digest in string.gmatch(said[i + 1], '%S+') do
      if tonumber(redis.call('ZSCORE', P .. ':served', said[i] .. ' ' .. digest) or 0) > now then alive[#alive + 1] = digest end
    end
    if #alive > 1 and #found < ASKED then found[#found + 1] = {string.match(said[i], '%S+$'), alive} end
  end
  return found
end

local function run_here(P, host, several)
  if #several == 0 then return '' end
  local run, found = redis.call('HGET', P .. ':hosts:run', host) or '', {}
  for _, each in ipairs(several) do
    local digests = {}
    for _, digest in ipairs(each[2]) do
      if string.find(run, ' ' .. each[1] .. ' ' .. digest .. ' ', 1, true) then digests[#digests + 1] = digest end
    end
    if #digests > 0 then found[#found + 1] = each[1] .. ' ' .. table.concat(digests, ' ') end
  end
  return table.concat(found, ',')
end

register('list_hosts', {'no-writes'}, function(keys, args)
  local P, now, found = keys[1], instant(args[1]), {}
  local alive = redis.call('ZRANGE', P .. ':hosts', '(' .. fmt(now), '+inf', 'BYSCORE', 'LIMIT', 0, args[2], 'WITHSCORES')
  local several = of_several(P, now)
  for i = 1, #alive, 2 do
    found[#found + 1], found[#found + 2] = alive[i], fmt(tonumber(alive[i + 1]))
    found[#found + 1] = redis.call('HGET', P .. ':hosts:say', alive[i]) or ''
    found[#found + 1] = run_here(P, alive[i], several)
    local ends = string.match(redis.call('HGET', P .. ':hosts:drain', alive[i]) or '', '^%d+') or ''
    found[#found + 1] = (ends == '0' or ends ~= '' and tonumber(ends) > now) and ends or ''
    found[#found + 1] = redis.call('HGET', P .. ':hosts:why', alive[i]) or ''
  end
  return {fmt(now), found}
end)
