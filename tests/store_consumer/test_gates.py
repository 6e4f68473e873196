"""The gate that closes by itself: the store consumer has a lambda judged, by its runs in all partitions."""

from __future__ import annotations

import asyncio

from atf.store.values.claims import Outcome, RunResult
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status
from tests.virtual import virtual

from .test_consumer import World, world

NAME = "shop/mail"


async def ends(w: World, partition: int, succeeded: int, failed: int) -> None:
    """So many runs end in a partition."""
    await w.schedule(succeeded + failed, partition=partition)
    await asyncio.sleep(0.1)
    claims = await w.claim(await w.pop(partition))
    assert len(claims) == succeeded + failed
    outcomes = [Outcome.SUCCEEDED] * succeeded + [Outcome.FAILED_FATAL] * failed
    await w.store.set_results([RunResult(*each) for each in zip(claims, outcomes, strict=True)])


@virtual(world(partitions=3))
async def test_a_lambda_that_fails_too_often_over_its_partitions_is_paused_in_all_until_somebody_resumes_it(
    w: World,
) -> None:
    await w.store.register_lambdas([LambdaRecord(NAME, b"", 1000, 10 * US, paused=False, settings="fatal=0.5")])
    w.start()
    await ends(w, 0, succeeded=2, failed=8)
    await ends(w, 1, succeeded=5, failed=4)
    await asyncio.sleep(5)
    assert await w.store.list_gates(NAME) == []  # 12 of 19 say nothing yet
    await ends(w, 2, succeeded=0, failed=1)
    await asyncio.sleep(0.1)
    (gate,) = await w.store.list_gates(NAME)
    assert gate.why == "13 of 20 runs within a minute failed for good; its gate_at_fatal is 50 %"
    kept = [(await w.schedule(partition=partition))[0] for partition in range(3)]
    await asyncio.sleep(10)
    assert {(await w.record(each)).status for each in kept} == {Status.NEW}
    await w.store.resume_lambda(NAME)
    await asyncio.sleep(0.1)
    assert [await w.pop(partition) for partition in range(3)] == [[each] for each in kept]
    await ends(w, 0, succeeded=0, failed=1)
    await asyncio.sleep(5)
    assert await w.store.list_gates(NAME) == []  # what failed before counts no more
