-- The door: which of a queue's due tasks may be pushed now. Only queues of lambdas that have settings beyond their limit and
-- timeout, and queues with keyed tasks, have one; all others are pushed without a look at each task.

-- ids: due tasks in `status`, earliest first. Returns those that may be pushed, and until when the others that are left where they
-- are need not be looked at again (nil: none is left there); and how many a gate has dealt with.
-- A stage that keeps a task back for long takes it out of the way itself: it scores it anew, and remembers by what it will be brought up again.
local function through_door(P, queue, status, ids, now, settings, _keyed)
  local gated = 0
  if settings.gates then ids, gated = past_gates(P, queue, status, ids, now, settings.gates) end
  return ids, nil, gated
end
