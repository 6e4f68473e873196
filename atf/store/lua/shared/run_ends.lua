-- How many runs of a lambda ended lately, and failed for good: for its automatic gate.

-- How many runs of a lambda have ended here within about a minute, and how many of those failed for good; nil where nobody asks.
run_ends.key = remembered(function(P, name) return P .. ':e:' .. name end)

function run_ends.within(P, name, now)
  local settings = registry.settings(P, name)
  if not settings.fatal then return nil end
  local newest, ended, fatal = math.floor(now / run_ends.STEP), 0, 0
  local counts = redis.call('HGETALL', run_ends.key(P, name))
  for i = 1, #counts, 2 do
    local step, kind = string.match(counts[i], '^(%d+)(f?)$')
    step = tonumber(step)
    if step <= newest - run_ends.STEPS or step > newest then
      redis.call('HDEL', run_ends.key(P, name), counts[i])
    elseif kind == 'f' then
      fatal = fatal + tonumber(counts[i + 1])
    else
      ended = ended + tonumber(counts[i + 1])
    end
  end
  return ended, fatal, tonumber(settings.fatal)
end

-- Whether so many failed here that the lambda's automatic gate may have to close: where it has to over all partitions together, it
-- has to by what is known in at least one.
function run_ends.failing(P, name, now)
  local ended, fatal, share = run_ends.within(P, name, now)
  return ended and fatal > 0 and fatal >= share * ended and redis.call('HGET', lambda_key(P, name), 'paused') ~= '1'
end

function run_ends.count(P, name, ended, fatal, now)
  if tonumber(redis.call('HGET', P, 'watched') or 0) <= 0 then return end
  if not registry.settings(P, name).fatal then return end
  local step = fmt(math.floor(now / run_ends.STEP))
  redis.call('HINCRBY', run_ends.key(P, name), step, ended)
  if fatal == 0 then return end
  redis.call('HINCRBY', run_ends.key(P, name), step .. 'f', fatal)
  if run_ends.failing(P, name, now) then gate_records.look_by(P, name, now) end
end
