-- explain_task: what surrounds a task: its lambda, its queue, its place in it or behind its ordering key
-- KEYS[1]  the partition's record
-- ARGV     now, id
-- RETURNS  now, paused, queue's length, queue's limit, position (-1 = in neither), 1 in the queue, the task it is
--          behind (""), the task at which its ordering key has stopped (""),
--          the limit that its queue waits for, running=<number> or rate=<number> (""), number of the gate that keeps it (""),
--          the pool its lambda names of which no worker is alive (""),
--          tasks that hold slots of its concurrency key, tasks before it in that key's line (-1 = it does not wait there),
--          live hosts of its pool, and of those that quarantine its lambda: host, until when, ...,
--          1 if a worker of the pool that its lambda runs in is alive, whether that has a name or not,
--          1 if there are such, all of them say which lambdas they run, and none runs this one,
--          1 if this partition does not know its lambda, digests of the signatures of it that live executors run,
--          of up to 3 hosts of its pool on which no worker can start: host, why ("=" = they start), ...,
--          how claims are paused here (see roster.pause), the last pauses of its lambda (see gate_records.note_pause)
local HOSTS_SEEN = 256
local FAILING_TOLD = 3

-- What a host has said of itself: its pool, and by lambda until when it quarantines that.
local function host_says(P, host)
  local said = {}
  for field, value in string.gmatch(redis.call('HGET', P .. ':hosts:say', host) or '', '([^ =]+)=([^ ]*)') do said[field] = value end
  return said
end

register('explain_task', {'no-writes'}, function(keys, args)
  local P, id = keys[1], args[2]
  local queue, ordering, gate, concurrency = fields_of(task_key(P, id), 'q', 'k', 'g', 'kc')
  if not queue then return {} end
  local name = lambda_of(queue)
  local paused, limit, text = fields_of(lambda_key(P, name), 'paused', 'limit', 'settings')
  local list = list_key(P, queue)
  local place = redis.call('LPOS', list, id)
  local position, behind, stopped = place or -1, '', ''
  if ordering and not place then
    local head = redis.call('LINDEX', order_key(P, ordering), 0)
    position = redis.call('LPOS', order_key(P, ordering), id) or -1
    if head and head ~= id then behind = head end
    if string.sub(behind, 1, 1) == ordering_keys.STOPPED then behind, stopped = '', string.sub(behind, 2) end
  end
  local taken, before, key = 0, -1, string.match(concurrency or '', '^%S+')
  if key then
    taken = redis.call('ZCARD', slots_key(P, key))
    before = redis.call('ZRANK', line_key(P, key), id) or -1
  end
  local waits_for = permits.why_waits(P, queue, text)
  local pool = registry.settings_of(text).pool
  local now = instant(args[1])
  local served = tonumber(redis.call('ZSCORE', P .. ':workers', pool or '') or 0) > now
  local function said(what) return tonumber(redis.call('ZSCORE', P .. ':served', (pool or '') .. ' ' .. what) or 0) end
  local signatures = misfits.alive(P, name, now)
  local not_run = served and said('*') <= now and said(name) <= now and #signatures == 0
  local hosts, quarantined, failing = 0, {}, {}
  for _, host in ipairs(redis.call('ZRANGE', P .. ':hosts', '(' .. fmt(now), '+inf', 'BYSCORE', 'LIMIT', 0, HOSTS_SEEN)) do
    local said = host_says(P, host)
    local why = said.pool == (pool or '') and redis.call('HGET', P .. ':hosts:why', host)
    if why then
      if #failing < 2 * FAILING_TOLD then failing[#failing + 1], failing[#failing + 2] = host, why end
    elseif said.pool == (pool or '') then
      hosts = hosts + 1
      local until_ = said['*'] or said[name]
      if until_ then quarantined[#quarantined + 1], quarantined[#quarantined + 2] = host, until_ end
    end
  end
  return {fmt(now), paused == '1' and 1 or 0, redis.call('LLEN', list), tonumber(limit or DEFAULT_QUEUE_LIMIT), position, place and 1 or 0, behind, stopped, waits_for,
    gate or '', not served and pool or '', taken, before, hosts, quarantined, served and 1 or 0, not_run and 1 or 0, limit and 0 or 1,
    signatures, failing, roster.pause(P, now), redis.call('HGET', gate_records.tally_key(P, name), 'pauses') or ''}
end)
