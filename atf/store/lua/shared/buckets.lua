-- The rate is a bucket: one instant, `z`, at which it was empty; it fills with time, up to what a quarter of a second brings, or what
-- `burst` leaves beside a second's rate. `log` says what was pushed within the last second, so that no second sees more than `burst`.
-- What is pushed again, since it was lost, handed back or never claimed, has its permit of `running` still, and takes one of the rate's.

buckets.SECOND = 1000000

local LOG_STEP = 10000  -- µs: pushes so close to each other share an entry of the log

-- The bucket of `part` of the lambda's permits holds at least one task: the instant before which it can't have been empty.
function buckets.fullest(limits, part, now)
  if part <= 0 then return now end
  local most = math.max(limits.most * part / limits.b, 1)
  return math.floor(now - most * buckets.SECOND * limits.b / (limits.rate * part))
end

-- What was pushed within the last second: entries {instant, number}, oldest first, and their sum.
local function read_log(text, now)
  local log, sum = {}, 0
  for at, number in string.gmatch(text or '', '(%d+):(%d+)') do
    at, number = tonumber(at), tonumber(number)
    if at > now then at = now end  -- the clock has stepped back
    if at + buckets.SECOND > now then
      log[#log + 1] = {at, number}
      sum = sum + number
    end
  end
  return log, sum
end

function buckets.write_log(log, pushed, now)
  local last, lines = log[#log], {}
  if pushed == 0 then  -- as it is
  elseif last and now - last[1] < LOG_STEP and #log > 1 then
    last[1], last[2] = now, last[2] + pushed
  else
    log[#log + 1] = {now, pushed}
  end
  for i, each in ipairs(log) do lines[i] = fmt(each[1]) .. ':' .. fmt(each[2]) end
  return table.concat(lines, ' ')
end

-- How many tasks `part` of the rate's permits let through now, and from when on one more.
function buckets.read(limits, part, z, text, now)
  local bucket = {left = 0, again = now + PERMIT_REVISIT}
  bucket.log, bucket.sum = read_log(text, now)
  bucket.z = math.min(math.max(z or 0, buckets.fullest(limits, part, now)), now)
  bucket.stepped_back = z and z > now  -- the clock: the bucket starts anew, empty
  if part <= 0 then return bucket end
  bucket.each = buckets.SECOND * limits.b / (limits.rate * part)  -- µs for one task
  local tokens = math.floor((now - bucket.z) / bucket.each + 0.000001)
  local cool = part - bucket.sum
  bucket.left = math.max(math.min(tokens, cool), 0)
  bucket.again = bucket.z + math.ceil((bucket.left + 1) * bucket.each)
  if cool <= bucket.left then
    local oldest = bucket.log[1]
    bucket.again = math.max(bucket.again, (oldest and oldest[1] or now) + buckets.SECOND)
  end
  return bucket
end
