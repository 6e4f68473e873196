"""Cuts work over many items into calls of one partition each, bounded in items and bytes, and puts the answers in order."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, TypeVar

from atf.errors import AtfError, Unavailable
from atf.task import MAX_BATCH, MAX_PAYLOAD_BYTES

T = TypeVar("T")
R = TypeVar("R")

CALL_BYTES: Final = MAX_PAYLOAD_BYTES + (128 << 10)
"""What the items of one call may come to: any one item, or so much that the server stands still for a few milliseconds only."""


async def by_partition(
    items: Sequence[T],
    partition: Callable[[T], int],
    call: Callable[[int, list[T]], Awaitable[Sequence[R]]],
    size: Callable[[T], int] = lambda _: 0,
    *,
    kind: Callable[[T], Hashable] = lambda _: None,
    failed: Callable[[AtfError], R] | None = None,
) -> list[R]:
    """Calls `call(partition, some items)` for all items, partitions side by side, one partition's calls in order.

    Partitions lie on different servers: those of one that is away must not take the others along. See `failed`.

    Args:
        items: the work.
        partition: an item's partition.
        call: answers with one value per item.
        size: an item's bytes, where they may be many.
        kind: items of one call have this in common.
        failed: what to answer for the items of a partition that is away, if another one has answered.

    Returns:
        The answers in the order of `items`.

    Raises:
        What `call` raises: the first error, after every partition's call has ended; with `failed`, an Unavailable only where
        no partition has answered.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        places[partition(item)].append(place)
    answers: dict[int, R] = {}

    async def work(number: int, mine: list[int]) -> None:
        for batch in _split(mine, items, size, kind):
            answers.update(zip(batch, await call(number, [items[place] for place in batch]), strict=True))

    if len(places) == 1:
        (only,) = places.items()
        await work(*only)
    else:
        results = await asyncio.gather(*(work(*each) for each in places.items()), return_exceptions=True)
        errors = {number: each for number, each in zip(places, results, strict=True) if each is not None}
        for number, error in errors.items():
            if failed is None or not isinstance(error, Unavailable) or len(errors) == len(places):
                raise error
            for place in places[number]:
                answers.setdefault(place, failed(error))
    return [answers[place] for place in range(len(items))]


def _split(
    places: list[int], items: Sequence[T], size: Callable[[T], int], kind: Callable[[T], Hashable]
) -> list[list[int]]:
    batch: list[int] = []
    batches, weight, last = [batch], 0, kind(items[places[0]])
    for place in places:
        item = items[place]
        more, this = size(item), kind(item)
        if batch and (len(batch) == MAX_BATCH or weight + more > CALL_BYTES or this != last):
            batch = []
            batches.append(batch)
            weight = 0
        batch.append(place)
        weight += more
        last = this
    return batches
