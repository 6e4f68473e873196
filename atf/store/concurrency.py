"""Concurrency keys: how many of their slots are taken, and how many tasks wait."""

from __future__ import annotations

from typing import Any

from . import keys
from .user_keys import parse_token, score
from .partitions import Partitions
from .values.keys import SlotsRecord


class ConcurrencyVerbs(Partitions):
    """The verbs of Store about concurrency keys."""

    async def list_concurrency_keys(self, lambda_name: str, size: int, token: str) -> tuple[list[SlotsRecord], str]:
        """A lambda's keys for which tasks wait, among at most so many keys of any lambda; the next page's token ("": none).

        Raises:
            InvalidArgument: the token is not one of ours.
        """
        partition, at, last = parse_token(token, self.partitions)
        found: list[SlotsRecord] = []
        looked = 0
        while partition < self.partitions and looked < size:
            number, seen_at, seen, told = await self._call(
                "list_concurrency_keys", partition, [lambda_name, "", at, last, size - looked]
            )
            found += _records(told)
            if number < size - looked:
                partition, at, last = partition + 1, "", ""
            else:
                at, last = score(seen_at), seen.decode()
            looked += number
        return found, f"{partition}.{at or 0}.{last}" if partition < self.partitions else ""

    async def get_concurrency_key(self, lambda_name: str, key: str) -> SlotsRecord | None:
        """One key, whether tasks wait for it or not; None where it has none."""
        reply = await self._call(
            "list_concurrency_keys", self.partition_for(key), [lambda_name, keys.stored_key(key), "", "", 1]
        )
        return next(iter(_records(reply[3])), None)


def _records(told: list[Any]) -> list[SlotsRecord]:
    return [
        SlotsRecord(keys.bare(name.decode()), int(taken), int(limit), int(waiting))
        for name, taken, limit, waiting in zip(told[::4], told[1::4], told[2::4], told[3::4], strict=True)
    ]
