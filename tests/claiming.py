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
_served: dict[str, ClaimedTask] = {}
"""What serve_queues has claimed, which claim_ids answers where that still stands."""


class Claimed(NamedTuple):
    """What became of ids that were to be claimed."""

    claims: list[ClaimedTask]
    lost: list[str]  # not claimable
    deferred: list[str]  # did not fit the bytes, and stand in their queue


def fresh_nonce() -> str:
    """A nonce that was not used before, in any store: several may be of one server."""
    return f"nonce-{next(_nonces)}"


def number_nonces_anew() -> None:
    """Fresh nonces begin anew: for stories that are told twice, each in stores of its own, and are compared."""
    global _nonces  # noqa: PLW0603
    _nonces = count(1)


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


async def pop_ids(store: Store, partition: int, groups: Sequence[Sequence[str]], want: int = MAX_BATCH) -> list[str]:
    """Takes ids out of their queues, past all rules, as somebody does who then forgets them. Their tasks stay ENQUEUED."""
    ids: list[str] = []
    for queue in (queue for group in groups for queue in group):
        key = f"rq:queue:{keys.rq_name(partition, queue)}"
        if len(ids) < want:
            found = await store.link.command("LPOP", key, str(want - len(ids)), key=key)
            ids += [each.decode() for each in found or ()]
    return ids


def note_served(claims: Sequence[ClaimedTask]) -> None:
    """Has claim_ids answer these."""
    _served.update({each.task_id: each for each in claims})


async def serve_queues(
    store: Store,
    partition: int,
    groups: Sequence[Sequence[str]],
    want: int = MAX_BATCH,
    pool: str = "",
    host: str = "",
    **more: Any,
) -> list[tuple[str, list[str]]]:
    """Claims from groups of queues. Returns each queue with the ids that were claimed of it; behind those, with none, each other one that holds more."""
    taker = Taker("executor-1", fresh_nonce(), max(want, 1))
    taken = await store.next_claims(partition, groups, [taker], want=want, pool=pool, host=host, **more)
    note_served(taken.claims[taker.nonce])
    left = [each.task_id for each in taken.claims[taker.nonce]]
    found = []
    for queue, served in taken.served.items():
        found.append((queue, left[:served]))
        left = left[served:]
    return found + [(queue, []) for queue in taken.filled if queue not in taken.served]


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
        for each in await _standing(store, partition, queue) & set(mine):
            await store.link.command("LREM", key, "0", each, key=key)
        await store.link.command("LPUSH", key, *reversed(mine), key=key)
    return queues


async def claim_ids(
    store: Store,
    owner: str,
    nonce: str,
    ids: Sequence[str],
    max_bytes: int = PLENTY,
    signatures: Mapping[str, str] = _NONE,
    **more: Any,
) -> Claimed:
    """Claims these ids, and no others: as if they stood at the front of their queues. What `serve_queues` has claimed is answered as it is."""
    ids, nonce = list(dict.fromkeys(ids)), nonce or fresh_nonce()
    claims = [claim for each in ids if (claim := await _held(store, each)) is not None]
    before = {each.task_id for each in claims}
    deferred: list[str] = []
    for (partition, queue), mine in (await put_in_front(store, [each for each in ids if each not in before])).items():
        for start in range(0, len(mine), MAX_BATCH):
            some = mine[start : start + MAX_BATCH]
            room = max(max_bytes - sum(len(each.spec) + 256 for each in claims), 0)
            claims += await take(
                store,
                queue,
                owner=owner,
                nonce=nonce if not start else f"{nonce}-{start}",
                want=len(some),
                partition=partition,
                max_bytes=room,
                signatures=signatures,
                **more,
            )
        if len(claims) + len(deferred) < len(ids):
            left = await _standing(store, partition, queue) - {each.task_id for each in claims}
            deferred += [each for each in mine if each in left]
    got = {each.task_id for each in claims}.union(deferred)
    return Claimed(claims, [each for each in ids if each not in got], deferred)


async def _standing(store: Store, partition: int, queue: str) -> set[str]:
    """The ids in a queue."""
    key = f"rq:queue:{keys.rq_name(partition, queue)}"
    return {each.decode() for each in await store.link.command("LRANGE", key, "0", "-1", key=key)}


async def _held(store: Store, task_id: str) -> ClaimedTask | None:
    """What serve_queues has claimed, if it is still held so and was not claimed here before."""
    claim = _served.pop(task_id, None)
    if claim is None:
        return None
    record = keys.record(int(task_id.partition("-")[0]))
    found = [await store.link.command("HGET", f"{record}:t:{task_id}", each, key=record) for each in ("s", "c")]
    return claim if found[0] == b"CLAIMED" and claim.nonce.encode() in found[1].split(b" ") else None
