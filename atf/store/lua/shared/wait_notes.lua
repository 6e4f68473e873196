-- What a task has waited for before its newest run. Its field `wr` is "<letter><until> <letter><until> ...": each entry says until when something kept the task.
-- That began with the end of the entry before, or when the task was due. Letters: g a gate or the pause of its job, k a slot of its concurrency key, o the
-- tasks before it of its ordering key, q its queue, which it has left without a run, b the wait for a retry.
--
-- Only what keeps a task writes here, so a task that nothing keeps pays nothing. What keeps many at once is not written for each: see `wp` in fields.py.

-- Adds an entry to the field, which was `before`. The newest entries are kept: as many as lie within the record.
function wait_notes.note(P, id, before, letter, until_)
  local text = (before and before .. ' ' or '') .. letter .. fmt(until_)
  while #text > record.INLINE do text = string.match(text, ' (.*)$') end
  redis.call('HSET', task_key(P, id), 'wr', text)
end

-- A task is parked: says what it has waited for until now. One that was new was just due.
function wait_notes.park(P, id, from, now)
  if from == 'NEW' then return end
  wait_notes.note(P, id, redis.call('HGET', task_key(P, id), 'wr'), from == 'ENQUEUED' and 'q' or 'b', now)
end
