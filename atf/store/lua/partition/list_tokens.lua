-- list_tokens: the tokens of the installation, and what credentials of executors are signed with
-- KEYS[1]  the registry partition's record
-- ARGV     now, version that is known
-- RETURNS  version, and unless that is known: id, text of each
register('list_tokens', {'no-writes'}, function(keys, args)
  local key = keys[1] .. ':tokens'
  local version = redis.call('HGET', key, 'version') or '0'
  if version == args[2] then return {version} end
  local answer, found = {version}, redis.call('HGETALL', key)
  for i = 1, #found, 2 do
    if found[i] ~= 'version' then answer[#answer + 1], answer[#answer + 2] = found[i], found[i + 1] end
  end
  return answer
end)
