"""Short ways for tests to take tasks out of queues and to claim them, past an HSC and its asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from atf.store import keys
from atf.store.store import Store
from atf.store.values.claims import ClaimedTask, Taker
from atf.task import MAX_BATCH

PLENTY: Final = 1 << 22
"""Bytes: no bound on a claim."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_nonces = count(1)


class Claimed(NamedTuple):
    """What became of ids that were to be claimed."""

    claims: list[ClaimedTask]
    lost: list[str]  # not claimable
    deferred: list[str]  # did not fit the bytes, and stand in their queue


def fresh_nonce() -> str:
    """A nonce that no test has used."""
    return f"nonce-{next(_nonces)}"


async def take(
    store: Store,
    *queues: str,
    owner: str = "executor-1",
    nonce: str = "",
    want: int = MAX_BATCH,
    partition: int = 0,
    **more: Any,
) -> list[ClaimedTask]:
    """Claims what stands in some queues, which are one group."""
    taker = Taker(owner, nonce or fresh_nonce(), want)
    taken = await store.next_claims(partition, [queues], [taker], want=want, **more)
    return taken.claims[taker.nonce]


async def put_in_front(store: Store, ids: Sequence[str]) -> dict[tuple[int, str], list[str]]:
    """Has these ids stand at the front of their queues, wherever they were. Returns the queues, by partition and name. Ids without a record are left out."""
    queues: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for task_id in ids:
        record = keys.record(int(task_id.partition("-")[0]))
        queue = await store.link.command("HGET", f"{record}:t:{task_id}", "q", key=record)
        if queue is not None:
            queues[int(task_id.partition("-")[0]), queue.decode()].append(task_id)
    for (partition, queue), mine in queues.items():
        key = f"rq:queue:{keys.rq_name(partition, queue)}"
        for each in mine:
            await store.link.command("LREM", key, "0", each, key=key)
        await store.link.command("LPUSH", key, *reversed(mine), key=key)
    return queues


async def claim(
    store: Store,
    owner: str,
    nonce: str,
    ids: Sequence[str],
    max_bytes: int = PLENTY,
    signatures: Mapping[str, str] = _NONE,
    **more: Any,
) -> Claimed:
    """Claims these ids, and no others: as if they stood at the front of their queues."""
    ids = list(dict.fromkeys(ids))
    claims: list[ClaimedTask] = []
    deferred: list[str] = []
    for (partition, queue), mine in (await put_in_front(store, ids)).items():
        for start in range(0, len(mine), MAX_BATCH):
            some = mine[start : start + MAX_BATCH]
            room = max(max_bytes - sum(len(each.spec) + 256 for each in claims), 0)
            claims += await take(
                store,
                queue,
                owner=owner,
                nonce=nonce,
                want=len(some),
                partition=partition,
                max_bytes=room,
                signatures=signatures,
                **more,
            )
        key = f"rq:queue:{keys.rq_name(partition, queue)}"
        left = {each.decode() for each in await store.link.command("LRANGE", key, "0", "-1", key=key)}
        deferred += [each for each in mine if each in left]
    got = {each.task_id for each in claims}.union(deferred)
    return Claimed(claims, [each for each in ids if each not in got], deferred)
