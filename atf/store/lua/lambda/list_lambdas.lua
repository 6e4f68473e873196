-- list_lambdas: every lambda's record, where any has changed since
-- KEYS[1]  the registry partition's record
-- ARGV     now, the version that is known ("" = none)
-- RETURNS  version, and unless that is known: {name, spec in base64, queue limit, enqueue timeout, "1" = paused, settings by the code, settings by an
--          operator, gates}, ...
--
-- Frontends ask every second: of thousands of lambdas that would take the server a tenth of it.
register('list_lambdas', {'no-writes'}, function(keys, args)
  local P = keys[1]
  local version = redis.call('HGET', P, 'lambda_version') or '0'
  local answer = {version}
  if version == args[2] then return answer end
  for _, name in ipairs(redis.call('SMEMBERS', P .. ':lambdas')) do
    local spec, limit, timeout, paused, code, set, gates = fields_of(lambda_key(P, name), 'spec', 'limit', 'timeout', 'paused', 'code', 'set', 'gates')
    answer[#answer + 1] = {name, spec, limit, timeout, paused or '0', code or '', set or '', gates or ''}
  end
  return answer
end)
