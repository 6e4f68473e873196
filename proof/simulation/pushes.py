"""Judges what calls push that have just made it due: nothing past older tasks of its queue, and nothing of a lambda that is paused.

Older are those that were due before the call and that it has not written to. A store consumer's pass takes the oldest first, so it is not judged here.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

_WAITING: Final = (b"NEW", b"RETRIABLE_FAILURE")


def pushes(seed: int) -> bool:
    """Whether a seed's roles push what they make due. In the others store consumers push all."""
    return random.Random(~seed).random() < 0.5


def judge(
    data: Mapping[bytes, Any], pushed: Collection[bytes], written: Collection[bytes], now_us: int
) -> Iterator[str]:
    """What is wrong with a call of the store's.

    Args:
        data: everything in the store.
        pushed: the keys of the tasks that the call has pushed.
        written: those of the tasks that it has written to.
        now_us: its instant, by the store's clock.
    """
    for key in pushed:
        partition, _, task_id = key.partition(b":t:")
        queue = data[key].value[b"q"]
        known = data.get(partition + b":l:" + queue.rpartition(b":")[0])
        if known is not None and known.value.get(b"paused") == b"1":
            yield f"{task_id.decode()}: pushed when it was made due, and its lambda is paused"
        for status in _WAITING:
            waiting = data.get(partition + b":s:" + queue + b":" + status)
            for other, score in waiting.value.items() if waiting is not None else ():
                if score < now_us and partition + b":t:" + other not in written:
                    yield f"{task_id.decode()}: pushed when it was made due, past {other.decode()}, which was due before it"
