-- What is kept of what a task's runs printed and logged: its field `log`. The newest runs, oldest first, together kept_log.BYTES of text.
-- Of each a line "run attempt cut bytes", and then so many bytes of its text; `cut` bytes of its log stood before them.

local HEAD = '^((%d+) %d+) (%d+) (%d+)\n'

-- The runs of a field: {run, run and attempt, cut, text}, oldest first.
local function runs_of(text)
  local found, at = {}, 1
  while true do
    local _, last, names, run, cut, bytes = string.find(text, HEAD, at)
    if not last then return found end
    found[#found + 1] = {run = run, names = names, cut = tonumber(cut), text = string.sub(text, last + 1, last + tonumber(bytes))}
    at = last + tonumber(bytes) + 1
  end
end

-- The newest lines of a text that have room, and how much stood before them.
local function newest(text, room)
  if #text <= room then return text, 0 end
  local kept = room > 0 and string.match(string.sub(text, -room), '\n(.*)$') or ''
  return kept, #text - #kept
end

-- Notes what a run has said, in the place of what it had said before. `entry`: as the field has one; `held`: what the record has of the field.
function kept_log.put(P, id, held, entry)
  local said = runs_of(entry)[1]
  local room, kept, before = kept_log.BYTES - #said.text, {entry}, held and runs_of(record.get(P, id, 'log', held)) or NOTHING
  for i = #before, 1, -1 do
    local each = before[i]
    if each.run ~= said.run and #kept < ENDED_RUNS_KEPT then
      local text, cut = newest(each.text, room)
      room = room - #text
      if text == '' then break end
      table.insert(kept, 1, each.names .. ' ' .. fmt(each.cut + cut) .. ' ' .. #text .. '\n' .. text)
    end
  end
  redis.call('HSET', task_key(P, id), 'log', record.put(P, id, 'log', table.concat(kept)))
end

-- Whether somebody watches what a task's run says.
function kept_log.is_watched(P, id, now) return tonumber(redis.call('HGET', task_key(P, id), 'lw') or 0) > now end
