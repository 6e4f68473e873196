"""The keys that users give tasks: lists ordering and concurrency keys, has stopped ordering keys go on, and carries windows of unique keys over."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from atf.errors import InvalidArgument
from atf.store.servers.sockets import Arg

from . import keys
from .calls import by_partition
from .partitions import Partitions
from .values.keys import KeyAnswer, KeyRecord, MendedKey, SlotsRecord

T = TypeVar("T")

_TOKEN: Final = re.compile(r"([0-9]{1,5})\.([0-9]{1,17})\.([A-Za-z0-9._/:%~-]{0,3200})")
"""The partition, and the instant and list of the key seen last."""
_PAGE: Final = 256


class HeldUniqueKey(NamedTuple):
    """A unique key of which there is one task until an instant."""

    key: str  # as the store knows it: lambda:key
    task_id: str
    until_us: int


class UserKeyVerbs(Partitions):
    """The verbs of Store about ordering, concurrency and unique keys."""

    # --- ordering keys ------------------------------------------------------------------------------------------------

    async def list_keys(self, lambda_name: str, size: int, token: str) -> tuple[list[KeyRecord], str]:
        """A page of a lambda's keys that have stopped, partition by partition, the earliest first; the next page's token ("": none).

        Raises:
            InvalidArgument: the token is not one of ours.
        """

        async def look(partition: int, at: str, last: str, left: int) -> tuple[int, bytes, bytes, list[KeyRecord]]:
            reply = await self._call("list_keys", partition, [lambda_name, "", at, last, left])
            seen, seen_at = reply[-1][:2] if reply else (b"", b"")
            return len(reply), seen_at, seen, [_record(each) for each in reply]

        return await self._page(size, token, look)

    async def get_key(self, lambda_name: str, key: str) -> KeyRecord | None:
        """One key, stopped or not; None where it has no unfinished task and has not stopped."""
        reply = await self._call("list_keys", self.partition_for(key), [lambda_name, keys.stored_key(key), "", "", 1])
        return _record(reply[0]) if reply else None

    async def resume_key(self, lambda_name: str, key: str, task_id: str = "") -> MendedKey:
        """Has a stopped key go on with the task that stopped it, which starts afresh. Nothing happens unless it is `task_id`, where given."""
        args = [lambda_name, keys.stored_key(key), task_id]
        return _mending(await self._call("resume_key", self.partition_for(key), args))

    async def skip_key(self, lambda_name: str, key: str, task_id: str = "") -> MendedKey:
        """Has a stopped key go on without the task that stopped it. Nothing happens unless it is `task_id`, where given."""
        args = [lambda_name, keys.stored_key(key), task_id]
        return _mending(await self._call("skip_key", self.partition_for(key), args))

    # --- concurrency keys ---------------------------------------------------------------------------------------------

    async def list_concurrency_keys(self, lambda_name: str, size: int, token: str) -> tuple[list[SlotsRecord], str]:
        """A lambda's keys for which tasks wait, among at most so many keys of any lambda; the next page's token ("": none).

        Raises:
            InvalidArgument: the token is not one of ours.
        """

        async def look(partition: int, at: str, last: str, left: int) -> tuple[int, bytes, bytes, list[SlotsRecord]]:
            args: list[Arg] = [lambda_name, "", at, last, left]
            number, seen_at, seen, told = await self._call("list_concurrency_keys", partition, args)
            return number, seen_at, seen, _slots(told)

        return await self._page(size, token, look)

    async def get_concurrency_key(self, lambda_name: str, key: str) -> SlotsRecord | None:
        """One key, whether tasks wait for it or not; None where it has none."""
        args: list[Arg] = [lambda_name, keys.stored_key(key), "", "", 1]
        reply = await self._call("list_concurrency_keys", self.partition_for(key), args)
        return next(iter(_slots(reply[3])), None)

    async def _page(
        self, size: int, token: str, look: Callable[[int, str, str, int], Awaitable[tuple[int, bytes, bytes, list[T]]]]
    ) -> tuple[list[T], str]:
        """A page over all partitions; `look` answers how many keys it has looked at, instant and name of the last of them, and what it found."""
        partition, at, last = parse_token(token, self.partitions)
        found: list[T] = []
        while partition < self.partitions and size > 0:
            number, seen_at, seen, some = await look(partition, at, last, size)
            found += some
            if number < size:
                partition, at, last = partition + 1, "", ""
            else:
                at, last = _score(seen_at), seen.decode()
            size -= number
        return found, f"{partition}.{at or 0}.{last}" if partition < self.partitions else ""

    # --- unique keys --------------------------------------------------------------------------------------------------

    async def list_unique_keys(self) -> AsyncIterator[HeldUniqueKey]:
        """Every window that is open and has a task; one that is put off meanwhile may come twice."""
        for partition in range(self.partitions):
            until, last = "", ""
            while reply := await self._call("list_unique_keys", partition, [until, last, _PAGE]):
                for key, task_id, end in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
                    if task_id:
                        yield HeldUniqueKey(key.decode(), task_id.decode(), int(float(end)))
                until, last = _score(reply[-1]), reply[-3].decode()

    async def restore_unique_keys(self, windows: Sequence[HeldUniqueKey]) -> list[int]:
        """Opens windows again; per window 1, or 0 where it has ended, or one of its key is open."""

        async def call(partition: int, batch: list[HeldUniqueKey]) -> list[int]:
            args: list[Arg] = [part for each in batch for part in each]
            return list(await self._call("restore_unique_keys", partition, args))

        return await by_partition(windows, lambda each: self.partition_for(keys.bare(each.key)), call)


def _mending(reply: tuple[int, bytes]) -> MendedKey:
    what, stopped_by = reply
    return MendedKey(KeyAnswer(what), stopped_by.decode())


def _record(reply: list[bytes]) -> KeyRecord:
    name, at, task_id, error, waiting = reply
    key, why = keys.bare(name.decode()), error.decode("utf-8", "replace")
    return KeyRecord(key, int(_score(at)), task_id.decode(), why, int(waiting))


def _slots(told: list[Any]) -> list[SlotsRecord]:
    return [
        SlotsRecord(keys.bare(name.decode()), int(taken), int(limit), int(waiting))
        for name, taken, limit, waiting in zip(told[::4], told[1::4], told[2::4], told[3::4], strict=True)
    ]


def _score(text: bytes) -> str:
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
