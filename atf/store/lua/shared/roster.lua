-- The roster: who may have been answered leases, each by a name that it has had since it was put there -> TIME of its last call that gave
-- or renewed some, or one more: a number that grows with every one. Where a server comes back with a prefix of what it had written, the last
-- of these writes says that all before it are there. So nobody is answered a lease whose name is not on the roster, and is there to stay
-- (enlist.lua). After a restart the names are asked (`asked`) instead, and each holder has to come back under a new one: with the highest
-- number that it was answered under the one before. When all have said that theirs is there, the pause of claims is over.
-- A name may be struck off at any time, since that, too, is written behind all that it was answered.
roster.key = remembered(function(P, name) return P .. ':' .. name end)

roster.EPOCH = '@'  -- in `asked`, beside the names: the pause that they may end, by its `pause_until`; 0 = none

roster.MEMORY = {['1'] = 2, p = 1}  -- what a server has after a restart: 1 all that it has answered, p a prefix of it, 0 nobody knows

-- The number of a holder's last call; nil: it is not on the roster.
function roster.last(P, name)
  return tonumber(redis.call('HGET', roster.key(P, 'roster'), name) or nil)
end

-- Counts a call that gives or renews leases; returns its number. Added up: if the middle of a file were lost, its end would not hide that.
function roster.count(P, name, last, now)
  return fmt(redis.call('HINCRBY', roster.key(P, 'roster'), name, fmt(math.max(now - last, 1))))
end

-- How many are still to answer.
function roster.left(P)
  return #redis.call('HGETALL', roster.key(P, 'asked')) / 2 - 1
end

-- How claims are paused here, for people: for how long at least (µs), 1 = that is over and no store consumer has seen it yet, whose answers
-- end it sooner (how many are still to answer; 0: none), its cause. Empty: claims are given.
function roster.pause(P, now)
  local pause_until, pause_over, cause = fields_of(P, 'pause_until', 'pause_over', 'cause')
  pause_until = tonumber(pause_until or nil)
  local left = store_clock.pause_left(pause_until, pause_over, now)
  if not left then return NOTHING end
  local ends = tonumber(redis.call('HGET', roster.key(P, 'asked'), roster.EPOCH) or nil) == pause_until
  return {fmt(left), now >= pause_until and 1 or 0, ends and roster.left(P) or 0, cause}
end

-- Puts a name on a list, with its number, unless it is there.
function roster.put(list, name, number)
  if redis.call('HEXISTS', list, name) == 0 then redis.call('HSET', list, name, number) end
end

-- Ends the pause of claims where nobody is left to be asked.
function roster.answered(P, pause_until)
  local asked = roster.key(P, 'asked')
  if roster.left(P) > 0 then return false end  -- mutant: silent_holder_ignored
  if tonumber(redis.call('HGET', asked, roster.EPOCH) or nil) ~= pause_until then return false end
  redis.call('DEL', asked)
  redis.call('HSET', P, 'pause_over', fmt(pause_until))
  return true
end

-- Asks all on the roster. `before` is how long the pause before this one had still to last, and `old` its end: only one that its own answers
-- may end does not make this one last its whole time. Returns whether there was nobody to ask: the pause is over.
function roster.ask(P, prefix, before, old, pause_until)
  local listed, asked = roster.key(P, 'roster'), roster.key(P, 'asked')
  local names = redis.call('HGETALL', listed)
  for i = 1, #names, 2 do roster.put(asked, names[i], names[i + 1]) end
  redis.call('DEL', listed)
  local may = prefix and (not before or tonumber(redis.call('HGET', asked, roster.EPOCH) or nil) == old)
  redis.call('HSET', asked, roster.EPOCH, may and fmt(pause_until) or '0')
  return roster.answered(P, pause_until)
end

-- Strikes off who has not been heard of for long. One that lives is put there again with its next call.
function roster.strike(P, now)
  local names = redis.call('HGETALL', roster.key(P, 'roster'))
  for i = 1, #names, 2 do
    if tonumber(names[i + 1]) < now - roster.SILENT then redis.call('HDEL', roster.key(P, 'roster'), names[i]) end
  end
end
