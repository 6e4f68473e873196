-- What a call is bound to: namespaces (with their slashes) and lambdas. What is of another lambda by the time of the call is for it as what does not exist.

-- Reads a list with blanks between; nil: bound to nothing.
function scopes.read(text)
  if not text or text == '' then return nil end
  local found = {}
  for scope in string.gmatch(text, '%S+') do found[scope] = true end
  return found
end

-- Whether a lambda is among them. '*/' is every namespace but that of the built-in lambdas.
function scopes.has(found, name)
  if not found then return true end
  local namespace = string.match(name or '', '^[^/]*/')
  return namespace and (found[name] or found[namespace] or found['*/'] and namespace ~= 'atf/') or false
end
