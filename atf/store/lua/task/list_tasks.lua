-- list_tasks: a page of the tasks that lie here and match a filter, newest first or oldest first
-- KEYS[1]  the partition's record
-- ARGV     now, "oldest" or "newest", score and id of the entry that the page goes on behind ("", "" = from the start), ids at most, tasks
--          looked at, at most, "1" where it is to be counted among how many, then the filter: what is asked for, each value behind its name:
--            lambda, or namespace (with its slash), or lambdas (those that declare the entries): with none of them all
--            scopes: namespaces (with their slashes) and lambdas, of which alone anything is listed
--            statuses, by name; made: "1" where tasks are in the order in which they were made though statuses are asked for; priorities, as digits; since, until: scores from here on, and before there
--            entries: of the opt-in index, all of which a task must stand in; labels: as the record has them
--            key: an ordering or concurrency key, as stored; error: the type of an exception
--          Lists have a blank between two.
-- RETURNS  among how many (-1: not counted), tasks looked at, score and id of the last of them where there are more ("" = that was all), then
--          id, score, ...
--
-- The score is when the task was made, where no status is asked for; when it ended, or its next instant, where one is.
local WALKED = 64  -- names of lists that are read at once
local COUNTED = 512  -- the same where lists are only counted
local GROUPED = 512  -- groups of failures at most of which an example's error is read; where there are more, all dead letters are looked at

local function words(text)
  local found = {}
  for word in string.gmatch(text or '', '%S+') do found[#found + 1] = word end
  return found
end

local function is_named(q, name)
  if not scopes.has(q.scopes, name) then return false end
  if q.lambda then return name == q.lambda end
  return not q.namespace or string.sub(name, 1, #q.namespace) == q.namespace
end

-- Whether tasks of a list may be asked for: then its key and its lambda.
local function asked_for(P, q, list)
  local finished = string.find(list, ':', 1, true)
  if not q.wanted then return not finished and is_named(q, list) and created_key(P, list), list end
  if not finished then return nil end
  local name, status = lists.parts(list)
  return q.wanted[status] and is_named(q, name) and done_key(P, list), name
end

-- What stands in `index` with when its newest entry was, from the newest on, as a function that says the next one that `asked` names: key, newest, lambda.
local function by_newest(P, q, index, asked)
  local rank, chunk, at = 0, NOTHING, 1
  return function()
    while true do
      if at > #chunk then
        chunk = redis.call('ZRANGE', beside_key(P, index), fmt(rank), fmt(rank + WALKED - 1), 'REV', 'WITHSCORES')
        rank, at = rank + WALKED, 1
        if #chunk == 0 then return nil end
      end
      local key, name = asked(P, q, chunk[at])
      local newest = tonumber(chunk[at + 1])
      at = at + 2
      if q.since and newest < q.since then return nil end
      if key then return key, newest, name end
    end
  end
end

local function type_of(err) return string.match(err or '', '^%s*([%w_]+)%f[:\n%z]') end

local function error_of(P, id) return record.get(P, id, 'err', redis.call('HGET', task_key(P, id), 'err')) end

-- The first word of an error as all of a group have it: numbers may differ where there is no traceback.
local function kind_of(err) return (string.gsub(string.match(err or '', '^%s*([%w_]*)'), '%d+', '#')) end

-- Whether dead letters of a group may have failed by the type that is asked for: then its key and its lambda.
local function group_asked_for(P, q, group)
  local name, entry = string.match(group, '^(.*):(![^:]+)$')
  if not name or not is_named(q, name) then return nil end
  local key = index.key(P, name, entry)
  if q.alike[key] == nil then
    local example = redis.call('ZRANGE', key, 0, 0, 'REV')[1]
    q.alike[key] = example and kind_of(error_of(P, example)) == kind_of(q.error) or false
  end
  return q.alike[key] and key, name
end

-- The same of one lambda, or of those of its entries in the index that exist.
local function of_lambda(P, q)
  local found, at = {}, 0
  if q.entries[1] then
    for _, name in ipairs(q.lambda and {q.lambda} or words(q.lambdas)) do found[#found + 1] = {index.key(P, name, q.entries[1]), name} end
  elseif q.wanted then
    for _, list in ipairs(lists.finished_of(P, q.lambda)) do
      local key = asked_for(P, q, list)
      if key then found[#found + 1] = {key, q.lambda} end
    end
  else
    found[1] = {created_key(P, q.lambda), q.lambda}
  end
  return function()
    at = at + 1
    if found[at] then return found[at][1], nil, found[at][2] end
  end
end

-- The lists that a filter asks for, but for those of live tasks; a function as above. Of dead letters by their errors' type, the groups.
local function lists_of(P, q)
  if q.only_live then return function() end end
  if q.alike then return by_newest(P, q, 'groups', group_asked_for) end
  return (q.lambda or q.entries[1]) and of_lambda(P, q) or by_newest(P, q, 'newest', asked_for)
end

-- How many tasks of a set are of the span of time that is asked for.
local function count_span(q, key)
  if not q.since and not q.until_ then return redis.call('ZCARD', key) end
  return redis.call('ZCOUNT', key, fmt(q.since or 0), q.until_ and '(' .. fmt(q.until_) or '+inf')
end

-- How many tasks the lists hold that a filter asks for, but for those of live tasks.
local function count_lists(P, q)
  local sum = 0
  if q.only_live then return sum end
  if q.lambda or q.entries[1] or q.alike or q.since then  -- few lists, or those alone that have something so new
    for key in lists_of(P, q) do sum = sum + count_span(q, key) end
    return sum
  end
  local first, last = q.namespace and '[' .. q.namespace or '-', q.namespace and '(' .. q.namespace .. '\255' or '+'
  while true do  -- by name: what `newest` says beside them is dear to read
    local names = redis.call('ZRANGE', beside_key(P, 'lists'), first, last, 'BYLEX', 'LIMIT', 0, COUNTED)
    for _, list in ipairs(names) do
      local key = asked_for(P, q, list)
      if key then sum = sum + count_span(q, key) end
    end
    if #names < COUNTED then return sum end
    first = '(' .. names[#names]
  end
end

-- Adds the sets of live tasks that are asked for to a merge. Returns how many tasks they hold, where that is to be counted.
local function add_live(P, q, m, counts)
  if #q.live == 0 then return 0 end
  local sum, all = 0, not q.since and not q.until_
  for _, queue in ipairs(q.lambda and due_index.queues_of(P, q.lambda) or due_index.queues(P)) do
    local name, priority = string.match(queue, '^(.*):(%d)$')  -- the due index holds the outbox, too
    if name and is_named(q, name) and (not q.priorities or string.find(q.priorities, priority, 1, true)) then
      for _, status in ipairs(q.live) do
        local key = live_key(P, queue, status)
        local held = counts and all and redis.call('ZCARD', key)
        if counts then sum = sum + (held or count_span(q, key)) end
        if held ~= 0 then merge.add(m, key, nil, name) end
      end
    end
  end
  return sum
end

-- The filter as it is used: what the sets answer, and what has to be read of records.
local function query(P, args)
  local q = {}
  for i = 8, #args, 2 do q[args[i]] = args[i + 1] end
  q.since, q.until_ = tonumber(q.since), tonumber(q['until'])
  q.scopes = scopes.read(q.scopes)
  q.entries, q.live, q.of = words(q.entries), {}, {}
  for _, status in ipairs(words(q.statuses)) do q.of[status] = true end
  local by_status = q.statuses and not q.entries[1] and not q.made
  for _, status in ipairs(by_status and LIVE or NOTHING) do
    if q.of[status] then q.live[#q.live + 1] = status end
  end
  q.wanted = by_status and {SUCCESS = q.of.SUCCESS, FATAL_FAILURE = q.of.FATAL_FAILURE, CANCELLED = q.of.CANCELLED} or nil
  if q.wanted and not next(q.wanted) then q.wanted, q.only_live = nil, true end
  q.read_status, q.read_priority = q.statuses and not by_status, q.priorities and not q.only_live
  q.labels = q.labels and words(q.labels)
  local only_dead = q.wanted and q.wanted.FATAL_FAILURE and not q.wanted.SUCCESS and not q.wanted.CANCELLED
  if q.error and only_dead and redis.call('ZCARD', beside_key(P, 'groups')) <= GROUPED then q.alike = {} end
  return q
end

local function has_labels(text, labels)
  text = ' ' .. (text or '') .. ' '
  for _, each in ipairs(labels) do
    if not string.find(text, ' ' .. each .. ' ', 1, true) then return false end
  end
  return true
end

local function has_key(task, key)
  local ordering, concurrency = fields_of(task, 'k', 'kc')
  return ordering == key or string.match(concurrency or '', '^%S+') == key
end

-- Whether a task matches what its set has not answered.
local function matches(P, q, id, name)
  for i = 2, #q.entries do
    if not redis.call('ZSCORE', index.key(P, name, q.entries[i]), id) then return false end
  end
  local key = task_key(P, id)
  if q.read_status and not q.of[redis.call('HGET', key, 's')] then return false end
  if q.read_priority then
    local queue = redis.call('HGET', key, 'q')
    if not queue or not string.find(q.priorities, string.sub(queue, -1), 1, true) then return false end
  end
  if q.labels and not has_labels(redis.call('HGET', key, 'lb'), q.labels) then return false end
  return (not q.key or has_key(key, name .. ':' .. q.key)) and (not q.error or type_of(error_of(P, id)) == q.error)
end

register('list_tasks', {'no-writes'}, function(keys, args)
  local P, most, budget, counts, q = keys[1], tonumber(args[5]), tonumber(args[6]), args[7] == '1', query(keys[1], args)
  local m = {oldest = args[2] == 'oldest', since = q.since, until_ = q.until_}
  if args[4] ~= '' then m.from, m.after = args[3] == 'inf' and math.huge or tonumber(args[3]), args[4] end
  merge.open(m, lists_of(P, q))
  local live = add_live(P, q, m, counts)
  local answer = {counts and live + count_lists(P, q) or -1, 0, '', ''}
  while answer[2] < budget and #answer < 4 + 2 * most do
    local id, score, of = merge.next(m)
    if not id then break end
    answer[2], answer[3], answer[4] = answer[2] + 1, score == math.huge and 'inf' or fmt(score), id
    if matches(P, q, id, of) then
      answer[#answer + 1], answer[#answer + 2] = id, answer[3]
    end
  end
  if not merge.goes_on(m) then answer[3], answer[4] = '', '' end
  return answer
end)
