-- Who is alive: sets of who has said so, each with the instant until which that counts.

-- Strikes off those of whom it no longer counts, some at a time. Returns them.
function liveness.strike_off(set, now)
  local gone = redis.call('ZRANGE', set, '-inf', fmt(now), 'BYSCORE', 'LIMIT', 0, 256)
  if #gone > 0 then redis.call('ZREM', set, unpack(gone)) end
  return gone
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
