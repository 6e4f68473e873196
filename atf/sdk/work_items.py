"""Makes the ids of a batch's items from what they do. Pure: no I/O.

A work-item id is the md5 of a line: the lambda, and the texts of the item's arguments, with single spaces between them. So whoever
knows an item's inputs finds its result. Of identical items in a batch all but the first that was stored carry "-<number>", their
place in the batch, behind it.

    program     the texts are the command line, program first:   atf/command echo hello world
    lambda      each argument's canonical JSON, in the order in which the payload names them; names are left out
                                                                 photos/thumbnail "cat.jpg" 128 {"a":1,"b":[true,null]}

Canonical JSON has no white space, the members of objects in the order of their names (by Unicode code point), every character as it
is in UTF-8 but for those that JSON must escape (the shortest escape, \\u00xx for control characters without one). An integer stays
one, of any length; of other numbers there are the fewest digits that read back as the same, and from 1e16 on and below 1e-5 an
exponent: 1, 1.0, 0.1, 0.00001, 1e-6, 1.5e16. -0 is the integer 0; -0.0 keeps its sign.

The stored id of an item's task is "<partition>-<batch>.<work-item id>". No other id has a dot, so every role knows an item by its id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import md5
from typing import Any, Final, NamedTuple

import msgspec

from atf.errors import InvalidArgument

from .payload import FAILS, reason

COMMAND: Final = "atf/command"
"""The lambda whose items are command lines."""
MAX_BATCH_ID_CHARS: Final = 20
MAX_ITEMS: Final = 100_000_000
"""Of one batch. An item's stored id stays within 72 bytes, of which executors keep a table."""
EXTRA_FIRST: Final = 50_000_000
"""The number of the first item of an extension that came while the batch was still being made: what its maker sends goes before."""
ITEM_MARK: Final = "."
_STORED_ID: Final = re.compile(r"([0-9]{1,5})-([^.]*)\.(.*)", re.DOTALL)

_BATCH_ID = re.compile(r"[A-Za-z0-9_-]{1,20}")
_WORK_ITEM_ID = re.compile(r"[0-9a-f]{32}(?:-[0-9]{1,12})?")
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ItemId(NamedTuple):
    """The parts of the stored id of an item's task."""

    partition: int
    batch_id: str
    work_item_id: str


def check_batch_id(batch_id: str) -> str:
    """The id of a batch as a client makes it.

    Raises:
        InvalidArgument: it is not 1 to 20 of the characters A-Z a-z 0-9 _ -
    """
    if not isinstance(batch_id, str) or not _BATCH_ID.fullmatch(batch_id):
        raise InvalidArgument(f"batch id {batch_id!r}: use 1 to {MAX_BATCH_ID_CHARS} of the characters A-Z a-z 0-9 _ -")
    return batch_id


def check_work_item_id(work_item_id: str) -> str:
    """A work-item id.

    Raises:
        InvalidArgument: it has another form.
    """
    if not _WORK_ITEM_ID.fullmatch(work_item_id):
        raise InvalidArgument(
            f"work-item id {work_item_id!r}: 32 hexadecimal digits, and for all but the first of identical items -<number>"
        )
    return work_item_id


def digest_of(lambda_name: str, texts: Sequence[str]) -> str:
    """The work-item id of an item that is the first of its kind in its batch."""
    return md5(" ".join((lambda_name, *texts)).encode(), usedforsecurity=False).hexdigest()


def texts_of(payload: bytes) -> list[str]:
    """The canonical texts of a lambda's arguments.

    Args:
        payload: the arguments by name, as a JSON object; empty: there are none.

    Raises:
        InvalidArgument: it is no JSON object.
    """
    if not payload:
        return []
    try:
        return [_encode(each).decode() for each in _decode(payload).values()]
    except FAILS as error:
        raise InvalidArgument(f"payload: give the arguments by name as a JSON object: {reason(error)}") from None


def stored_id(partition: int, batch_id: str, work_item_id: str) -> str:
    """The id of an item's task, as every call takes it."""
    return f"{partition}-{batch_id}{ITEM_MARK}{work_item_id}"


def parse(task_id: str) -> ItemId | None:
    """The parts of a stored id; None where the task is no item of a batch."""
    found = _STORED_ID.fullmatch(task_id)
    return ItemId(int(found[1]), found[2], found[3]) if found else None
