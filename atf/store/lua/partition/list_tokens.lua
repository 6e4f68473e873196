-- list_tokens: the tokens of the installation, and what credentials of executors are signed with
-- KEYS[1]  the registry partition's record
-- ARGV     now, version that is known, whether what credentials are signed with is wanted (1)
-- RETURNS  version, and unless that is known: id, text of each
register('list_tokens', {'no-writes'}, function(keys, args)
  local with_keys = args[3] == '1'
  local version = fmt(tokens.version(keys[1], with_keys))
  if version == args[2] then return {version} end
  local answer = {version}
  for _, id in ipairs(with_keys and {'', 'keys'} or {''}) do
    local found = redis.call('HGETALL', tokens.key(keys[1], id))
    for i = 1, #found, 2 do
      if found[i] ~= 'version' then answer[#answer + 1], answer[#answer + 2] = found[i], found[i + 1] end
    end
  end
  return answer
end)
