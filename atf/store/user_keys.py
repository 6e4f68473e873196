"""Lists ordering keys that have stopped at a task which failed for good, and has them go on."""

from __future__ import annotations

import re
from typing import Final

from atf.errors import InvalidArgument

from . import keys
from .partitions import Partitions
from .values.keys import KeyAnswer, KeyRecord, MendedKey

_TOKEN: Final = re.compile(r"([0-9]{1,5})\.([0-9]{1,17})\.([A-Za-z0-9._/:%~-]{0,3200})")
"""The partition, and the instant and list of the key seen last."""


class OrderingVerbs(Partitions):
    """The verbs of Store about ordering keys."""

    async def list_keys(self, lambda_name: str, size: int, token: str) -> tuple[list[KeyRecord], str]:
        """A page of a lambda's keys that have stopped, partition by partition, the earliest first; the next page's token ("": none).

        Raises:
            InvalidArgument: the token is not one of ours.
        """
        partition, at, last = parse_token(token, self.partitions)
        found: list[KeyRecord] = []
        while partition < self.partitions and len(found) < size:
            left = size - len(found)
            reply = await self._call("list_keys", partition, [lambda_name, "", at, last, left])
            found += [_record(each) for each in reply]
            if len(reply) < left:
                partition, at, last = partition + 1, "", ""
            else:
                at, last = score(reply[-1][1]), reply[-1][0].decode()
        return found, f"{partition}.{at or 0}.{last}" if partition < self.partitions else ""

    async def get_key(self, lambda_name: str, key: str) -> KeyRecord | None:
        """One key, stopped or not; None where it has no unfinished task and has not stopped."""
        reply = await self._call("list_keys", self.partition_for(key), [lambda_name, keys.stored_key(key), "", "", 1])
        return _record(reply[0]) if reply else None

    async def resume_key(self, lambda_name: str, key: str, task_id: str = "") -> MendedKey:
        """Has a stopped key go on with the task that stopped it, which starts afresh. Nothing happens unless it is `task_id`, where given."""
        return _mending(
            await self._call("resume_key", self.partition_for(key), [lambda_name, keys.stored_key(key), task_id])
        )

    async def skip_key(self, lambda_name: str, key: str, task_id: str = "") -> MendedKey:
        """Has a stopped key go on without the task that stopped it. Nothing happens unless it is `task_id`, where given."""
        return _mending(
            await self._call("skip_key", self.partition_for(key), [lambda_name, keys.stored_key(key), task_id])
        )


def _mending(reply: tuple[int, bytes]) -> MendedKey:
    what, stopped_by = reply
    return MendedKey(KeyAnswer(what), stopped_by.decode())


def _record(reply: list[bytes]) -> KeyRecord:
    name, at, task_id, error, waiting = reply
    return KeyRecord(
        keys.bare(name.decode()), int(score(at)), task_id.decode(), error.decode("utf-8", "replace"), int(waiting)
    )


def score(text: bytes) -> str:
    """An instant as a sorted set answers it."""
    return str(int(float(text)))


def parse_token(token: str, partitions: int) -> tuple[int, str, str]:
    """The partition where a page of keys goes on, and the score and name of the key seen last there ("", "": none).

    Raises:
        InvalidArgument: the token is not one of ours.
    """
    if not token:
        return 0, "", ""
    match = _TOKEN.fullmatch(token)
    if match is None or int(match[1]) >= partitions:
        raise InvalidArgument(
            f"page_token {token[:200]!r}: give the next_page_token of the page before, with the same lambda"
        )
    return int(match[1]), match[2] if match[3] else "", match[3]
