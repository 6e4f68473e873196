"""A function library that watches its own keys: a function that touches one without KEYS[1]'s tag fails.

A server that stands alone lets a function touch any key; on a cluster the call would fail, or see another slot's half of the
truth. So fakeredis runs the watched text in all of the store's tests, and real servers in some.

No function is excepted. The one key of ATF without a tag, `rq:queues`, is RQ's registry, and no function touches it: it is written
by a command of its own (atf/store/queues.py).
"""

from __future__ import annotations

from typing import Final

from atf.store.library import Library

_FIRST_KEY: Final = """
    HDEL HEXISTS HGET HGETALL HINCRBY HMGET HSET HSETNX LINDEX LLEN LPOP LPOS LPUSH LREM RPUSH SADD SMEMBERS SREM
    ZADD ZCARD ZCOUNT ZRANGE ZRANK ZREM ZSCORE PUBLISH SPUBLISH
"""
"""The commands whose first argument is a key or a channel of the partition; all others are refused, until they are put here."""

_WATCH: Final = """
local function api() return redis end  -- the global one: while the library is loaded, not the one of its calls
local TAG
local KEYLESS = {TIME = true}
local ALL_KEYS = {DEL = true, EXISTS = true}
local FIRST_KEY = {FIRST_KEYS}

local function watch(command, ...)
  if KEYLESS[command] then return end
  if not ALL_KEYS[command] and not FIRST_KEY[command] then error('unwatched command ' .. command) end
  for i = 1, ALL_KEYS[command] and select('#', ...) or 1 do
    local key = (select(i, ...))
    if string.match(key, '{[^}]*}') ~= TAG then error('undeclared key ' .. key .. ' in a call on ' .. TAG) end
  end
end

local redis = {
  call = function(...) watch(...) return api().call(...) end,
  pcall = function(...) watch(...) return api().pcall(...) end,
  register_function = function(options)
    local callback = options.callback
    options.callback = function(keys, args)
      if #keys ~= 1 then error('one key is declared, the record of a partition') end
      TAG = string.match(keys[1], '{[^}]*}')
      return callback(keys, args)
    end
    return api().register_function(options)
  end,
}
"""


def watched(library: Library, more: str = "") -> Library:
    """The same library under the same name, watched. `more` is put behind it."""
    first, rest = library.source.split("\n", 1)
    watch = _WATCH.replace("FIRST_KEYS", ", ".join(f"{name} = true" for name in _FIRST_KEY.split()))
    return Library(library.name, f"{first}{watch}{rest}{more}")
