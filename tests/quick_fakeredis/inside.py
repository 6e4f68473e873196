"""What fakeredis holds, for those who look at it or spoil it past its commands."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from fakeredis._helpers import SimpleError


def keys_of(server: Any) -> dict[bytes, Any]:
    """The keys of a FakeServer with their items, to be read and changed. An item's `value` is what the key holds."""
    held: dict[bytes, Any] = server.dbs[0]._dict
    return held


def fields_of(item: Any) -> dict[bytes, bytes]:
    """The fields of a hash, past their expiry, which nothing in the store has."""
    fields: dict[bytes, bytes] = item.value._values
    return fields


def keep(server: Any) -> dict[bytes, Any]:
    """A copy of all that a FakeServer holds: what is on the disk now."""
    return copy.deepcopy(keys_of(server))


def bring_back(server: Any, kept: dict[bytes, Any]) -> None:
    """Has a FakeServer hold what `keep` answered, and nothing else."""
    held = keys_of(server)
    held.clear()
    held.update(copy.deepcopy(kept))


def waiting_answers(connection: Any) -> Any:
    """The queue of what a connection has been sent and nobody has read."""
    return connection._sock.responses


def process(connection: Any, command: Sequence[bytes]) -> None:
    """Has a command processed past the wire; `connection.read_response` answers."""
    connection._sock._process_command(command)


def call_function(connection: Any, function: bytes, key: bytes, *args: bytes) -> Any:
    """Calls a function of a library past all that is asked and said around a command."""
    sock = connection._sock
    try:
        reply = sock._fcall("fcall", function, b"1", (key, *args), read_only_command=False)
    except SimpleError as error:
        raise sock._decode_error(error) from None
    return sock._decode_result(reply)
