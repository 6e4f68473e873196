-- What a task's record says of runs that have ended.

-- What a task's field `lim` says: how many attempts and how many losses it has at most, and its retention, µs.
local last, attempts, losses, retention  -- what was asked last: tasks are mostly alike
function run_log.limits(text)
  if not text then return run_log.ATTEMPTS, run_log.LOSSES, run_log.RETENTION end
  if text ~= last then
    local texts = {string.match(text, '^(%d+) (%d+) (%d+)$')}
    last, attempts, losses, retention = text, tonumber(texts[1]), tonumber(texts[2]), tonumber(texts[3])
  end
  return attempts, losses, retention
end

-- The field R with a run more that has ended: owner, end, for how long it ran (a text; nothing: it had not started), attempt, why (nothing: it
-- succeeded). The last ones are kept.
function run_log.add(runs, owner, ended, ran, attempt, why)
  local line = owner .. '\t' .. fmt(ended) .. '\t' .. (ran or '') .. '\t' .. attempt .. '\t' .. why .. '\n'
  if not runs then return line end
  local _, count = string.gsub(runs, '\n', '')
  if count >= ENDED_RUNS_KEPT then runs = string.match(runs, '^[^\n]*\n(.*)$') end
  return runs .. line
end

-- Whether a task was cancelled, by whomever, and its lambda was never called.
function run_log.never_ran(P, id)
  local status, attempts, started, runs = fields_of(task_key(P, id), 's', 'a', 't4', 'R')
  if status ~= 'CANCELLED' or attempts or started then return false end
  return not string.find('\n' .. (record.get(P, id, 'R', runs) or ''), '\n[^\t\n]*\t%d+\t[^\t]')  -- a run that ended, and had started
end
