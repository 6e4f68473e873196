-- Who is alive: sets of who has said so, each with the instant until which that counts.

-- Strikes off those of whom it no longer counts, some at a time. Returns them.
function liveness.strike_off(set, now)
  local gone = redis.call('ZRANGE', set, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, 256)
  if #gone > 0 then redis.call('ZREM', set, unpack(gone)) end
  return gone
end

-- Adds a digest to those that are known of a lambda, or takes one that nobody runs any more away.
local function note_signature(P, said, add)
  local of, digest = string.match(said, '^(%S* %S+) (%S+)$')
  if not of then return end
  local kept = {}
  for each in string.gmatch(redis.call('HGET', P .. ':signatures', of) or '', '%S+') do
    if each ~= digest then kept[#kept + 1] = each end
  end
  if add then kept[#kept + 1] = digest end
  while #kept > misfits.KEPT do table.remove(kept, 1) end
  if #kept > 0 then
    redis.call('HSET', P .. ':signatures', of, table.concat(kept, ' '))
  else
    redis.call('HDEL', P .. ':signatures', of)
  end
end

-- Workers of a pool are alive, and run these lambdas: each is a name, or a name and a digest, or "*" where somebody does not say.
function liveness.note_served(P, pool, lambdas, till)
  for _, each in ipairs(lambdas) do
    local said = pool .. ' ' .. each
    if redis.call('ZADD', P .. ':served', till, said) == 1 then note_signature(P, said, true) end
  end
  redis.call('ZADD', P .. ':workers', till, pool)
end

-- Pools without live workers, and what nobody runs any more, are forgotten.
function liveness.strike_off_workers(P, now)
  liveness.strike_off(P .. ':workers', now)
  for _, gone in ipairs(liveness.strike_off(P .. ':served', now)) do note_signature(P, gone, false) end
end

-- Hosts that are gone are forgotten, with what they said.
function liveness.strike_off_hosts(P, now)
  for _, gone in ipairs(liveness.strike_off(P .. ':hosts', now)) do
    for _, hash in ipairs({':hosts:say', ':hosts:run', ':hosts:why'}) do redis.call('HDEL', P .. hash, gone) end
  end
end

-- Of the digests in a text, those of signatures that live executors run. `of`: a pool and a lambda, as they stand in `signatures`.
function liveness.signatures(P, of, digests, now)
  local found = {}
  for digest in string.gmatch(digests or '', '%S+') do
    if tonumber(redis.call('ZSCORE', P .. ':served', of .. ' ' .. digest) or 0) > now then found[#found + 1] = digest end
  end
  return found
end

-- Until when a worker host drains, "0" = until that is ended; nil: it does not.
function liveness.drains_until(P, host, now)
  local ends = string.match(redis.call('HGET', P .. ':hosts:drain', host) or '', '^%d+')
  return ends and (ends == '0' or tonumber(ends) > now) and ends or nil
end
