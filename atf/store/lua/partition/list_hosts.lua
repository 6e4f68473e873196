-- list_hosts: the worker hosts that are alive
-- KEYS[1]  the partition's record
-- ARGV     now, how many at most
-- RETURNS  now, {host, until when it counts as alive, its pool and what it quarantines: "pool=<pool> executors=<number> <lambda>=<until> ...",
--          "<lambda> <digest> <digest> ..." of each lambda that it serves and of which live executors run several signatures, between commas,
--          until when it drains ("" = it does not, "0" = until that is ended), why no worker can start there ("" = they can, "=" = they start), ...}

local ASKED = 64  -- such lambdas at most

-- Lambdas of which live executors of a pool run several signatures.
local function of_several(P, now)
  local found, said = {}, redis.call('HGETALL', P .. ':signatures')
  for i = 1, #said, 2 do
    local run = liveness.signatures(P, said[i], said[i + 1], now)
    if #run > 1 and #found < ASKED then found[#found + 1] = {string.match(said[i], '%S+$'), run} end
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
  local hosts = redis.call('ZRANGE', P .. ':hosts', '(' .. fmt(now), '+inf', 'BYSCORE', 'LIMIT', 0, args[2], 'WITHSCORES')
  local several = of_several(P, now)
  for i = 1, #hosts, 2 do
    local host, said = hosts[i], redis.call('HGET', P .. ':hosts:say', hosts[i]) or ''
    local why = redis.call('HGET', P .. ':hosts:why', host) or ''
    for _, each in ipairs({host, fmt(tonumber(hosts[i + 1])), said, run_here(P, host, several), liveness.drains_until(P, host, now) or '', why}) do
      found[#found + 1] = each
    end
  end
  return {fmt(now), found}
end)
