-- The audit log.

-- Adds to the audit log, which keeps the newest.
function audit_log.add(P, now, entry)
  local log = P .. ':audit'
  local number = redis.call('HINCRBY', P, 'audited', 1)
  redis.call('ZADD', log, number, fmt(number) .. ' ' .. fmt(now) .. '\n' .. entry)
  local old = redis.call('ZRANGE', log, '-inf', number - AUDIT_KEPT, 'BYSCORE', 'LIMIT', 0, 16)
  if #old > 0 then redis.call('ZREM', log, unpack(old)) end
end
