"""The few commands that functions of the store call all the time, done on fakeredis's data itself.

Each answers None to a call that is not as plain as nearly all of the store's are (a number for an argument, another option, a value of
another type): that goes fakeredis's own way. Nobody may listen to keys, and nothing may expire.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from fakeredis._command_args_parsing import Float
from fakeredis._core._database import Item
from fakeredis.commands_mixins._lua_functions import FunctionLibrary, FunctionsEngine
from fakeredis.model import Hash, ZSet

# What answers with a list returns it as several values, after a first one that says that it has an answer: Lua gathers them in less
# time than it takes to be given a table.
_BEFORE: Final = """
local callback, calls, listing = ...
local api = debug.getmetatable(debug.getfenv(callback).redis).__index
local ordinary = api.call
local function gathered(answered, ...)
  if answered then return {...} end
end
for name, call in pairs(listing) do
  calls[name] = function(...) return gathered(call(...)) end
end
api.call = function(name, ...)
  local call = calls[name]
  local reply
  if call then reply = call(...) end
  if reply == nil then return ordinary(name, ...) end
  return reply
end
"""
_BYTES: Final = frozenset({bytes})
_LONGEST: Final = 16
"""Digits of a score: an instant in microseconds has so many, and floats hold it exactly."""


class Reach:
    """What a function that is being called may touch.

    Attributes:
        data: the keys of its server.
        touched: is told the keys of tasks that are written, where somebody wants to know.
    """

    def __init__(self) -> None:
        self.data: dict[bytes, Any] = {}
        self.touched: dict[bytes, None] | None = None


def put_before(engine: FunctionsEngine, library: FunctionLibrary, reach: Reach) -> None:
    """Has the functions of an interpreter do these commands so.

    Args:
        engine: the interpreter; once is enough for all of its libraries.
        library: the first that it has loaded.
        reach: what the function of the moment may touch.
    """
    function = next(iter(library.functions.values()))
    calls, listing = (
        engine.runtime.table_from({call.__name__.upper().encode(): call for call in each})
        for each in ((*_reads(reach), *_writes(engine, reach)), _listing(reach))
    )
    engine.runtime.execute(_BEFORE, function.callback, calls, listing)


def _reads(reach: Reach) -> tuple[Callable[..., Any], ...]:
    def zcard(key: bytes) -> int | None:
        item = reach.data.get(key)
        if item is None:
            return 0
        return len(item.value._bylex) if type(item.value) is ZSet else None

    def zcount(key: bytes, least: Any, most: Any) -> int | None:
        item = reach.data.get(key)
        if least != b"-inf" or not _whole(most) or (item is not None and type(item.value) is not ZSet):
            return None
        beyond = (math.nextafter(float(most), math.inf),)
        return item.value._byscore.bisect_left(beyond) if item is not None else 0

    def exists(*keys: bytes) -> int:
        return sum(key in reach.data for key in keys)

    def llen(key: bytes) -> int | None:
        item = reach.data.get(key)
        if item is None:
            return 0
        return len(item.value) if type(item.value) is list else None

    def hget(key: bytes, field: Any) -> bytes | bool | None:
        item = reach.data.get(key)
        if type(field) is not bytes or (item is not None and type(item.value) is not Hash):
            return None
        return item.value._values.get(field, False) if item is not None else False

    return zcard, zcount, exists, llen, hget


def _writes(engine: FunctionsEngine, reach: Reach) -> tuple[Callable[..., Any], ...]:
    def zadd(key: bytes, *given: Any) -> int | None:
        earlier = given[0] == b"LT"
        pairs = given[1:] if earlier else given
        scores, members = pairs[::2], pairs[1::2]
        plain = len(scores) == len(members) and all(map(_whole, scores)) and _BYTES.issuperset(map(type, members))
        item = reach.data.get(key)
        if not plain or engine._read_only or (item is not None and type(item.value) is not ZSet):
            return None
        if item is None:
            item = reach.data[key] = Item(ZSet())
        known = item.value._bylex
        before = len(known)
        for text, member in zip(scores, members, strict=True):
            score = float(text)
            if not earlier or score < known.get(member, math.inf):
                item.value.add(member, score)
        return len(known) - before

    def zrem(key: bytes, *members: Any) -> int | None:
        item = reach.data.get(key)
        if engine._read_only or not _BYTES.issuperset(map(type, members)):
            return None
        if item is None:
            return 0
        if type(item.value) is not ZSet:
            return None
        before = len(item.value)
        for member in members:
            item.value.discard(member)
        if not item.value._bylex:
            del reach.data[key]
        return before - len(item.value)

    def hset(key: bytes, *pairs: Any) -> int | None:
        item = reach.data.get(key)
        plain = len(pairs) % 2 == 0 and _BYTES.issuperset(map(type, pairs))
        if not plain or engine._read_only or (item is not None and type(item.value) is not Hash):
            return None
        if item is None:
            item = reach.data[key] = Item(Hash())
        values = item.value._values
        before = len(values)
        values.update(zip(pairs[::2], pairs[1::2], strict=True))
        if reach.touched is not None and b":t:" in key:
            reach.touched[key] = None
        return len(values) - before

    return zadd, zrem, hset


def _listing(reach: Reach) -> tuple[Callable[..., Any], ...]:
    def hmget(key: bytes, *fields: Any) -> tuple[Any, ...] | None:
        item = reach.data.get(key)
        if not _BYTES.issuperset(map(type, fields)) or (item is not None and type(item.value) is not Hash):
            return None
        if item is None:
            return (True, *(False for _ in fields))
        get = item.value._values.get
        return (True, *[get(field, False) for field in fields])

    def zrange(key: bytes, first: Any, last: Any, *how: Any) -> tuple[Any, ...] | None:
        item = reach.data.get(key)
        if item is not None and type(item.value) is not ZSet:
            return None
        if first == last == 0 and how == (b"WITHSCORES",):
            if item is None:
                return (True,)
            score, member = item.value._byscore[0]
            return True, member, _score(score)
        if first != b"-inf" or not _whole(last) or how[:3] != (b"BYSCORE", b"LIMIT", 0) or len(how) != 4:
            return None
        most, count = float(last), int(how[3])
        if count < 0:
            return None
        found: list[bytes] = []
        for score, member in item.value._byscore if item is not None else ():
            if score > most or len(found) == count:
                break
            found.append(member)
        return (True, *found)

    return hmget, zrange


def _whole(score: Any) -> bool:
    return type(score) is bytes and score.isdigit() and len(score) <= _LONGEST


@lru_cache(maxsize=1000)
def _score(score: float) -> bytes:
    return Float.encode(score, humanfriendly=False)
