-- schedule: (no record) -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, then per task: id, queue, spec, digest, at ("" = after delay), delay, limits ("" = defaults),
--          lambda:ordering key ("" = none)
-- RETURNS  per task {what, at}: what is 0 stored, 1 the same request was stored before, 2 another request holds the id
register('schedule', {}, function(keys, args)
  local P, now = keys[1], instant(args[1])
  local answers, earliest = {}, {}
  gathering(function(sets)
    for i = 2, #args, 8 do
      local id, queue, digest, ordering = args[i], args[i + 1], args[i + 3], args[i + 7]
      local known = redis.call('HMGET', task_key(P, id), 'd', 'at')
      if known[1] then
        answers[#answers + 1] = {known[1] == digest and 1 or 2, known[2] or '0'}
      else
        local at = args[i + 4] ~= '' and tonumber(args[i + 4]) or now + tonumber(args[i + 5])
        at = math.max(at, now)
        local score = at
        local fields = {'s', 'NEW', 'q', queue, 'at', fmt(at), 't1', fmt(now), 'd', digest, 'spec', args[i + 2]}
        if args[i + 6] ~= '' then fields[#fields + 1] = 'lim'; fields[#fields + 1] = args[i + 6] end
        if ordering ~= '' then
          ordering = joined(P, ordering)
          fields[#fields + 1] = 'k'; fields[#fields + 1] = ordering
          if redis.call('RPUSH', order_key(P, ordering), id) > 1 then score = nil end  -- waits behind another
        end
        redis.call('HSET', task_key(P, id), unpack(fields))
        sets.ZADD(live_key(P, queue, 'NEW'), score and fmt(score) or '+inf', id)
        if score then earliest[queue] = math.min(earliest[queue] or score, score) end
        answers[#answers + 1] = {0, fmt(at)}
      end
    end
  end)
  for queue, at in pairs(earliest) do visit_by(P, queue, at) end
  return answers
end)
