"""A function library that watches itself: a function fails that touches a key without KEYS[1]'s tag, or moves a task as its header does not say.

A server that stands alone lets a function touch any key; on a cluster the call would fail, or see another slot's half of the
truth. So fakeredis runs the watched text in all of the store's tests, and real servers in some.

No function is excepted. The one key of ATF without a tag, `rq:queues`, is RQ's registry, and no function touches it: it is written
by a command of its own (atf/store/queues.py).

A move is what one call made of a task: its status before the first write, and after the call. A record that the call removed has not moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from atf.store.library import Library
from atf.task import Move, Status
from tools.move_headers import NAMED, PUSHED, PUSHES

_FIRST_KEY: Final = """
    GET HDEL HEXISTS HGET HGETALL HINCRBY HMGET HSET HSETNX LINDEX LLEN LPOP LPOS LPUSH LREM RPUSH SADD SET SMEMBERS SREM
    ZADD ZCARD ZCOUNT ZMSCORE ZRANGE ZRANK ZREM ZSCORE PUBLISH SPUBLISH
"""
"""The commands whose first argument is a key or a channel of the partition; all others are refused, until they are put here."""

_WATCH: Final = """
local function api() return redis end  -- the global one: while the library is loaded, not the one of its calls
local TAG
local KEYLESS = {TIME = true}
local ALL_KEYS = {DEL = true, EXISTS = true}
local FIRST_KEY = {FIRST_KEYS}

local VERB, FIRST  -- the function that is called, and the status that each task had which it has written
local NAMED = {NAMED_MOVES}

local function watch(command, ...)
  if KEYLESS[command] then return end
  if not ALL_KEYS[command] and not FIRST_KEY[command] then error('unwatched command ' .. command) end
  for i = 1, ALL_KEYS[command] and select('#', ...) or 1 do
    local key = (select(i, ...))
    if string.match(key, '{[^}]*}') ~= TAG then error('undeclared key ' .. key .. ' in a call on ' .. TAG) end
  end
  local key, field = ...
  if command == 'HSET' and (field == 's' or field == 'x') and string.find(key, ':t:', 1, true) and not FIRST[key] then
    FIRST[key] = api().call('HGET', key, 's') or ''
  end
end

local function moved()
  local made = {}
  for key, from in pairs(FIRST) do
    local to = api().call('HGET', key, 's')
    if to and to ~= 'TOMBSTONE' then
      local move = from .. '>' .. to
      made[#made + 1] = move
      if VERB ~= 'restore' and not (NAMED[VERB] or {})[move] then error('the header of ' .. VERB .. ' names no move ' .. move) end
    end
  end
  if TELLS then api().call('PUBLISH', 'moves', VERB .. ' ' .. table.concat(made, ' ')) end
end

local redis = {
  call = function(...) watch(...) return api().call(...) end,
  pcall = function(...) watch(...) return api().pcall(...) end,
  register_function = function(options)
    local callback, name = options.callback, options.function_name
    options.callback = function(keys, args)
      if #keys ~= 1 then error('one key is declared, the record of a partition') end
      TAG = string.match(keys[1], '{[^}]*}')
      VERB, FIRST = string.match(name, '^atf_%d+_%x+_(.*)$'), {}
      local reply = callback(keys, args)
      moved()
      return reply
    end
    return api().register_function(options)
  end,
}
"""


def _pairs(moves: Sequence[Move], then: Sequence[Move] = ()) -> set[str]:
    """What the states of some rows look like before and after: "NEW>ENQUEUED"; "" is no record. `then`: rows that may follow in the same call."""
    pairs = {
        (source.name if source else "", (move.target or source or Status.NEW).name)
        for move in moves
        for source in move.sources
    }
    pairs |= {
        (start, move.target.name)
        for start, between in pairs
        for move in then
        if move.target and Status[between] in move.sources
    }
    return {f"{start}>{end}" for start, end in pairs}


def watched(library: Library, more: str = "", *, tells: bool = False) -> Library:
    """The same library under the same name, watched. `more` is put behind it.

    `tells`: each call publishes on the channel `moves` which function it was, and the moves that it made. `restore` makes none: it
    stores tasks of an export in the states that they had.
    """
    first, rest = library.source.split("\n", 1)
    named = (
        f"{verb} = {{{', '.join(f'[{pair!r}] = true' for pair in sorted(_pairs(moves, PUSHED if verb in PUSHES else ())))}}}"
        for verb, moves in NAMED.items()
    )
    watch = _WATCH.replace("FIRST_KEYS", ", ".join(f"{name} = true" for name in _FIRST_KEY.split()))
    watch = watch.replace("NAMED_MOVES", ", ".join(named)).replace("TELLS", str(tells).lower())
    return Library(library.name, f"{first}{watch}{rest}{more}".encode())
