-- The tokens of the installation; and apart from them what credentials of executors are signed with, so that a user of the store may write the
-- one and not the other.

local KEYS_FIELD = 'keys'

function tokens.key(P, id) return P .. (id == KEYS_FIELD and ':tokens:keys' or ':tokens') end

-- Of the tokens and, if they are wanted, of the keys; 0: there are none.
function tokens.version(P, with_keys)
  local own = redis.call('HGET', tokens.key(P), 'version')
  local of_keys = with_keys and redis.call('HGET', tokens.key(P, KEYS_FIELD), 'version')
  return math.max(tonumber(own or 0), tonumber(of_keys or 0))
end
