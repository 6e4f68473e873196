-- schedule_items: stores items of one batch. Of identical items the first one stored has their md5 alone as its work-item id;
--                 the others' end in their numbers.
-- MOVES    schedule: (no record) -> NEW
-- KEYS[1]  the partition's record
-- ARGV     now, batch, number of its batch partition, queue, limits ("" = defaults), pause between two items of one ordering key (0 = none),
--          labels ("" = none), trace ("" = none), then per item: number, md5, spec, lambda:ordering key ("" = none), concurrency ("" = none), affinity key
--          ("" = none), entries of the index ("" = none)
-- RETURNS  per item 1 it was stored before, 0 it is now; {} where the batch was cancelled or is deleted: none was stored
register('schedule_items', {}, pushing.around(function(keys, args)
  local P, now, batch, queue, limits, pause = keys[1], instant(args[1]), args[2], args[4], args[5], args[6]
  local at = fmt(now)
  local closed, batch_partition, traced = fields_of(part_key(P, batch), 'closed', 'batch_partition', 'tp')
  if closed then return {} end
  if args[8] ~= '' and not traced then redis.call('HSET', part_key(P, batch), 'tp', args[8]) end
  local answer, keyed, stored = {}, false, 0
  writes.gather((#args - 8) / 7, function(sets)
    for i = 9, #args, 7 do
      local number, item, spec, ordering, concurrency, affinity, entries = unpack(args, i, i + 6)
      local id = batch_parts.item_id(P, batch, item)
      local holder = redis.call('HGET', task_key(P, id), 'i')
      local known = holder == number  -- mutant: identical_items_are_one
      if holder and not known then
        item = item .. '-' .. number
        id = batch_parts.item_id(P, batch, item)
        known = redis.call('EXISTS', task_key(P, id)) == 1
      end
      if not known then
        local score = now
        local fields = {'s', 'NEW', 'q', queue, 'at', at, 't1', at, 'd', '', 'spec', record.put(P, id, 'spec', spec, true), 'i', number}
        if limits ~= '' then fields[#fields + 1] = 'lim'; fields[#fields + 1] = limits end
        if ordering ~= '' then
          fields[#fields + 1] = 'k'; fields[#fields + 1] = ordering
          if pause ~= '0' then fields[#fields + 1] = 'gap'; fields[#fields + 1] = pause end
          score = redis.call('RPUSH', order_key(P, ordering), id) == 1 and math.max(now, ordering_keys.paused_until(P, ordering, id)) or nil
          if not score then due_index.wait(P, sets, queue) end
        end
        if concurrency ~= '' then
          fields[#fields + 1] = 'kc'; fields[#fields + 1] = concurrency
          keyed = true
        end
        if affinity ~= '' then fields[#fields + 1] = 'af'; fields[#fields + 1] = affinity end
        if args[7] ~= '' then fields[#fields + 1] = 'lb'; fields[#fields + 1] = args[7] end
        if entries ~= '' then fields[#fields + 1] = 'ix'; fields[#fields + 1] = entries end
        local place = score == now and pushing.number(P, queue, now, concurrency ~= '')
        if place then
          fields[2] = 'ENQUEUED'
          redis.call('HSET', task_key(P, id), 't2', at, 'e', place, unpack(fields))
          sets.PUSH(P, queue, id)
        else
          redis.call('HSET', task_key(P, id), unpack(fields))
          sets.ZADD(live_key(P, queue, 'NEW'), score and fmt(score) or '+inf', id)
          if score then pushing.due(P, queue, score, now) end
        end
        lists.enter(P, sets, id, lambda_of(queue), entries ~= '' and entries or nil, now)
        sets.ZADD(batch_parts.items_key(P, batch), number, item)
        stored = stored + 1
      end
      answer[#answer + 1] = known and 1 or 0
    end
  end)
  if not batch_partition then redis.call('HSET', part_key(P, batch), 'batch_partition', args[3]) end
  if stored > 0 then batch_parts.count(P, batch, {n = stored, c0 = stored}, now) end
  if keyed then redis.call('HSET', queue_key(P, queue), 'keyed', '1') end
  return answer
end))
