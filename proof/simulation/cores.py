"""Judges every record of a pool's cores that is written: by whom has read the one before, and what the new one says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from atf.cores.pool import CorePool, CoreSettings

POOL: Final = ""
KEY: Final = b"atf:{0}:c:"
FIRST: Final = CoreSettings(
    cores=3,
    reserved={"sim/hopeless": 1},
    lookahead=1,
    max_retries=2,
    hand_over_us=500_000,
    multiplexed_timeout_us=2_000_000,
    rotation_us=5_000_000,
)
THEN: Final = msgspec.structs.replace(FIRST, cores=2)
"""What is set first, and later, in the seeds that have cores."""


def has_cores(seed: int) -> bool:
    """Whether a seed's pool has cores."""
    return seed % 8 == 4


def judge(before: dict[bytes, bytes], args: Sequence[Any], reply: Any) -> Iterator[str]:
    """What is wrong with a write of the record.

    Args:
        before: the record's fields.
        args: of set_cores.
        reply: to it.
    """
    if reply == b"0":
        return
    version = before.get(b"v", b"0").decode()
    if version != str(args[2]):
        yield f"the cores of version {version} were overwritten by one who had read version {args[2]}"
    if not args[3]:
        return
    pool = CorePool.decode(args[3])
    unhanded = [each.lambda_name for each in (*pool.queue, *pool.beyond)]
    unhanded += [turn.lambda_name for turn in pool.turns if turn is not None and not turn.occupied]
    twice = [name for name, count in Counter(unhanded).items() if count > 1 and name not in pool.settings.reserved]
    if twice:
        yield f"{twice} have more than one core claim that was not handed over"
    most = max(Counter(each.core for each in pool.queue).values(), default=0)
    if most > pool.settings.lookahead:
        yield f"{most} core claims wait for one core, lookahead is {pool.settings.lookahead}"
    owners = pool.settings.owners
    for core, owner in enumerate(owners):
        turn = pool.turns[core]
        if turn is not None and turn.lambda_name != owner:
            yield f"core {core} is reserved for {owner}, and {turn.lambda_name} has it"
    if args[4]:
        groups = msgspec.json.decode(args[4], type=list[list[str]])
        sizes = [len(group) for group in groups]
        if len(groups) != pool.settings.cores or max(sizes) - min(sizes) > 1:
            yield f"{pool.settings.cores} cores have groups of {sizes} executors"
    if before.get(b"state"):
        waited = CorePool.decode(before[b"state"])
        lost = {each.lambda_name for each in (*waited.queue, *waited.beyond)} - pool.names()
        if lost:
            yield f"{lost} waited for a core, and do not wait any more"
