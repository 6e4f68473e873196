-- The keys of the store, which atf/store/keys.py documents, and what names and ids tell.

local key_P, key_id, last_key
local function task_key(P, id)
  if id ~= key_id or P ~= key_P then key_P, key_id, last_key = P, id, P .. ':t:' .. id end
  return last_key
end

local part_key = remembered(function(P, batch) return P .. ':b:' .. batch end)

local live_key = remembered(function(P, queue, status) return P .. ':s:' .. queue .. ':' .. status end)

-- `list`: a finished set's name, "<lambda>:<STATUS>:<retention class>"; see lists.lua.
local done_key = remembered(function(P, list) return P .. ':f:' .. list end)

local created_key = remembered(function(P, name) return P .. ':n:' .. name end)

local queue_key = remembered(function(P, queue) return P .. ':q:' .. queue end)

local lambda_key = remembered(function(P, name) return P .. ':l:' .. name end)

local function order_key(P, key) return P .. ':o:' .. key end

local stops_key = remembered(function(P, name) return P .. ':stops:' .. name end)

local function slots_key(P, key) return P .. ':slots:' .. key end

local function line_key(P, key) return P .. ':line:' .. key end

local function pauses_key(P, batch) return P .. ':b:' .. batch .. ':p' end

local function job_key(P, name) return P .. ':j:' .. name end

local list_key = remembered(function(P, queue) return 'rq:queue:' .. string.sub(P, 5) .. queue end)  -- "atf:{0}" -> "{0}"

local lambda_of_ = remembered(function(_, queue) return string.sub(queue, 1, -3) end)                -- "ns/name:1" -> "ns/name"

local function lambda_of(queue) return lambda_of_('', queue) end

-- The batch of an item, by its id "<partition>-<batch>.<md5>"; no other task's id has a dot.
local function batch_of(id)
  local dot = string.find(id, '.', 1, true)
  return dot and string.sub(id, string.find(id, '-', 1, true) + 1, dot - 1) or nil
end

local function number_of(P) return string.match(P, '{(%d+)}') end

-- What lies beside the partition's record.
local beside_key = remembered(function(P, name) return P .. ':' .. name end)
