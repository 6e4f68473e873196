-- Admission: which of a queue's due tasks may be pushed now. Only queues of lambdas that have settings beyond their limit and
-- timeout, and queues with keyed tasks, have one; all others are pushed without a look at each task.

-- ids: due tasks in `status`, earliest first. Returns those that may be pushed; how many a gate has dealt with, or were cancelled; and by id
-- which hold a slot of their concurrency key. A stage that keeps a task back takes it out of the way itself: it scores it anew, and remembers
-- by what it will be brought up again.
function admission.admit(P, queue, status, ids, now, settings, keyed)
  local gated, slotted = 0, nil
  if settings.gates then ids, gated = parking.past_gates(P, queue, status, ids, now, settings.gates) end  -- mutant: no_gate_at_admission
  if keyed then
    local cancelled
    ids, slotted, cancelled = concurrency_keys.admit(P, queue, status, ids, now)
    gated = gated + cancelled
  end
  return ids, gated, slotted
end
