-- waiting: which lambdas have tasks for executors of a pool in this partition
-- KEYS[1]  the partition's record
-- ARGV     now, the pool ("" = of no name), then names of lambdas
-- RETURNS  per lambda: 0 it has none, 1 all that it has are with controllers or executors, 2 some wait in its queues, 3 no such lambda
--
-- What a paused lambda, or one that another pool runs, has in its queues waits for nobody.
register('waiting', {'no-writes'}, function(keys, args)
  local P, answer = keys[1], {}
  for i = 3, #args do
    local name, lists = args[i], {}
    for priority = 0, MAX_PRIORITY do lists[#lists + 1] = list_key(P, name .. ':' .. priority) end
    local found = 0
    if redis.call('EXISTS', lambda_key(P, name)) == 0 then
      found = 3
    elseif redis.call('EXISTS', unpack(lists)) > 0 and registry.gives_to(P, name, args[2]) then
      found = 2
    elseif redis.call('EXISTS', unpack(due_index.sets_of(P, name, {'ENQUEUED', 'CLAIMED', 'PROCESSING'}))) > 0 then
      found = 1
    end
    answer[#answer + 1] = found
  end
  return answer
end)
