"""How a command that comes over a connection is read, looked up and prepared."""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from typing import Any, Final

import hiredis
from fakeredis import _msgs as msgs
from fakeredis._commands import Key, Signature
from fakeredis._core import CommandItem
from fakeredis._helpers import SimpleError
from fakeredis._socket import _base
from fakeredis._socket._resp import convert_to_resp2

_Socket: Final = _base.BaseFakeSocket
_PLAIN: Final = {bytes, int, type(None)}
"""Answers that are the same in every protocol."""


# --- reading ----------------------------------------------------------------------------------------------------------


def _parse_commands(self: Any) -> Generator[None, Any, None]:
    """As fakeredis's, by redis-py's own parser: theirs copies what is left of the text at each word."""
    reader = hiredis.Reader()
    while True:
        reader.feed((yield))
        while not self._paused and (fields := reader.gets()) is not False:
            self._process_command(fields)


# --- running ----------------------------------------------------------------------------------------------------------


@functools.cache
def _places(signature: Signature, count: int) -> list[tuple[int, Any, bool]]:
    """Of so many arguments those that are not taken as they are: where, as what, and whether that is a key."""
    types = list(signature.fixed)
    types += [signature.repeat[place % len(signature.repeat)] for place in range(count - len(types))]
    return [(place, each, isinstance(each, Key)) for place, each in enumerate(types) if each is not bytes]


def _apply(self: Signature, args: Sequence[Any], db: Any, version: Any) -> tuple[Any, ...]:
    """As fakeredis's, with the kinds of the arguments known beforehand."""
    self.check_arity(args, version)
    places, values = _places(self, len(args)), list(args)
    for place, kind, is_key in places:
        if not is_key:
            values[place] = kind.decode(values[place])
        elif kind.missing_return is not Key.UNSPECIFIED and values[place] not in db:
            return (kind.missing_return,)
    items = []
    for place, kind, is_key in places:
        if is_key:
            values[place] = _item(self, kind, values[place], db)
            items.append(values[place])
    return values, items


def _item(signature: Signature, kind: Key, key: bytes, db: Any) -> CommandItem:
    item: Any = db.get(key)
    default = None
    if kind.type_ is not None and kind.type_ is not bytes and item is None:
        default = None if msgs.FLAG_DO_NOT_CREATE in signature.flags else kind.type_()
    if kind.type_ is not None and item is not None and type(item.value) is not kind.type_:
        raise SimpleError(msgs.WRONGTYPE_MSG)
    return CommandItem(key, db, item, default=default)


_run_any: Final = _Socket._run_command


def _run_command(self: Any, func: Any, signature: Signature, args: list[Any], from_script: bool) -> Any:
    """As fakeredis's, without what only other servers and protocols need, or a listener to changes of keys."""
    server, flags = self._server, signature.flags
    refused = self._pubsub or (from_script and msgs.FLAG_NO_SCRIPT in flags)
    if (
        refused
        or server.server_type != "redis"
        or self._resp_version != 2
        or b"notify-keyspace-events" in server.config
    ):
        return _run_any(self, func, signature, args, from_script)
    self._subkey_events = []
    items: list[CommandItem] = []
    try:
        prepared = signature.apply(args, self._db, server.version)
        if len(prepared) == 1:
            result = prepared[0]
        else:
            args, items = prepared
            result = func(*args)
            if type(result) not in _PLAIN and msgs.FLAG_SKIP_CONVERT_TO_RESP2 not in flags:
                result = convert_to_resp2(result, server.server_type)
    except SimpleError as error:
        result = error
    for item in items:
        item.writeback(remove_empty_val=msgs.FLAG_LEAVE_EMPTY_VAL not in flags)
    if server.subscribers or server.psubscribers:
        self._keyspace_notifications(items, signature.name.encode())
    return result


def install() -> None:
    """From now on, in this process."""
    for place, ours in ((_Socket, _parse_commands), (_Socket, _run_command), (Signature, _apply)):
        name = ours.__name__.removeprefix("_") if place is Signature else ours.__name__
        assert callable(getattr(place, name)), f"fakeredis has no {name} any more"
        setattr(place, name, ours)
