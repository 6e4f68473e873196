"""fakeredis's commands, called by functions of the store without what fakeredis works out anew each time.

A seed of the simulation calls some twenty thousand commands, most of them of a few microseconds; parsing what a command's signature
says, and looking for listeners to each key, took longer than the commands themselves. So that is worked out once per command and number
of arguments. What is out of the ordinary here is an error before the command, a type that does not fit, a command of several words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from fakeredis import _msgs as msgs
from fakeredis._commands import COMMANDS_WITH_SUB, Key
from fakeredis._core import CommandItem
from fakeredis._helpers import SimpleError
from fakeredis._socket._resp import convert_to_resp2
from fakeredis.commands_mixins.scripting_mixin import ScriptingCommandsMixin
from fakeredis.model import is_write_command

from .interpreter import reach

_PLAIN: Final = frozenset({bytes, int})
"""Types of replies that Lua takes as they are."""
_NOT_HERE: Final = {msgs.FLAG_NO_SCRIPT, msgs.FLAG_SKIP_CONVERT_TO_RESP2}


class _Plan(NamedTuple):
    """What a command does with so many arguments."""

    method: str
    writes: bool
    decoded: tuple[tuple[int, Callable[[bytes], Any]], ...]
    """Places of the arguments that are no plain bytes."""
    keys: tuple[tuple[int, Key, type[Any] | None], ...]
    """Places of the keys, and of what type one is that is not there yet."""
    remove_empty: bool


_plans: dict[tuple[tuple[Any, ...], int], _Plan | None] = {}
ORDINARY: Final = ScriptingCommandsMixin._function_redis_call


def _ordinary(sock: Any, lua: Any, read_only: bool, *args: Any) -> Any:
    if reach.touched is not None:
        reach.touched.update(dict.fromkeys(each for each in args if type(each) is bytes and b":t:" in each))
    return ORDINARY(sock, lua, read_only, *args)


def _function_redis_call(sock: Any, lua: Any, read_only: bool, *args: Any) -> Any:
    """As fakeredis's, where the command and its arguments are in order."""
    try:
        plan = _plans[args[:1], len(args)]
    except KeyError:
        plan = _plans[args[:1], len(args)] = _plan(sock, *args)
    if plan is None or (read_only and plan.writes):
        return _ordinary(sock, lua, read_only, *args)
    db, data = sock._db, sock._db._dict
    values: list[Any] = [each if type(each) is bytes else _number(each) for each in args[1:]]
    items = []
    try:
        for place, decode in plan.decoded:
            values[place] = decode(values[place])
    except SimpleError:
        return _ordinary(sock, lua, read_only, *args)
    for place, key, new in plan.keys:
        item = data.get(values[place])
        if item is None:
            if key.missing_return is not Key.UNSPECIFIED:
                return sock._convert_redis_result(lua, key.missing_return)
        elif key.type_ is not None and type(item.value) is not key.type_:
            return _ordinary(sock, lua, read_only, *args)
        values[place] = CommandItem(values[place], db, item, None if new is None or item is not None else new())
        items.append(values[place])
    try:
        result = getattr(sock, plan.method)(*values)
    finally:
        _write_back(items, plan)
        sock._subkey_events = []
    kind = type(result)
    if kind in _PLAIN:
        return result
    if kind is list and _PLAIN.issuperset(map(type, result)):
        return lua.table_from(result)
    return sock._convert_redis_result(lua, convert_to_resp2(result))


def _write_back(items: Sequence[CommandItem], plan: _Plan) -> None:
    for item in items:
        if item.is_modified:
            item.writeback(remove_empty_val=plan.remove_empty)
            if reach.touched is not None and b":t:" in item.key:
                reach.touched[item.key] = None


def install() -> None:
    """From now on, in this process."""
    place: Any = ScriptingCommandsMixin
    place._function_redis_call = _function_redis_call


def _number(value: Any) -> bytes:
    """As fakeredis writes a number of Lua's; what is none, no command takes."""
    if type(value) not in {int, float}:
        raise SimpleError(msgs.LUA_COMMAND_ARG_MSG)
    return f"{value:.17g}".encode()


def _plan(sock: Any, name: Any = None, *args: Any) -> _Plan | None:
    """None: it goes fakeredis's own way."""
    command = name.decode().lower() if type(name) is bytes else ""
    try:
        method, signature = sock._name_to_func(command)
        signature.check_arity(args, sock.version)
    except SimpleError:
        return None
    if method is None or command in COMMANDS_WITH_SUB or _NOT_HERE & signature.flags:
        return None
    repeated = signature.repeat * len(args)
    types = [*signature.fixed, *repeated][: len(args)]
    creates = msgs.FLAG_DO_NOT_CREATE not in signature.flags
    return _Plan(
        method=signature.func_name,
        writes=is_write_command(signature.name.encode()),
        decoded=tuple(
            (place, each.decode) for place, each in enumerate(types) if not isinstance(each, Key) and each is not bytes
        ),
        keys=tuple(
            (place, each, each.type_ if creates and each.type_ is not bytes else None)
            for place, each in enumerate(types)
            if isinstance(each, Key)
        ),
        remove_empty=msgs.FLAG_LEAVE_EMPTY_VAL not in signature.flags,
    )
