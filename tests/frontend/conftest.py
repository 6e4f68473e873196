"""A frontend on the real store functions over fakeredis, with an instant that the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import fakeredis
import pytest

from atf.config.settings import FrontendSettings, StoreSettings, Timing
from atf.frontend.service import FrontendService
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.store.values.claims import ClaimedTask, HeldClaim, Outcome, RunResult
from atf.task import US
from atf.testing.wiring import Wiring
from tests.claiming import claim_ids, pop_ids

START_US = 1_800_000_000 * US


class Clock(SystemRuntime):
    """Real spawning, clocks set by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = START_US

    def advance(self, seconds: float) -> None:
        self.now_us += round(seconds * US)

    def monotonic(self) -> float:
        return self.now_us / US

    def wall_us(self) -> int:
        return self.now_us


class Bench:
    """One frontend, its store, and the moves other roles would make."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.frontend = self.another_frontend()

    def another_frontend(self, **settings: Any) -> FrontendService:
        return Wiring(self.clock, Timing()).frontend(self.store, FrontendSettings(**settings))

    async def register(self, name: str = "photos/thumbnail", **fields: Any) -> None:
        await self.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=name, **fields)]))

    async def schedule(self, task_id: str = "", **fields: Any) -> str:
        """Schedules through the frontend; answers the stored id."""
        return (await self.frontend.schedule(request(task_id, **fields))).id

    async def stored(self, stored_id: str) -> t.Task:
        return await self.frontend.get_task(f.GetTaskRequest(id=stored_id, with_spec=True))

    async def audit(self) -> list[f.AuditEntry]:
        """The audit log, newest first, without the registrations."""
        entries = (await self.frontend.list_audit(f.ListAuditRequest())).entries
        return [each for each in entries if each.what != "register_lambdas"]

    async def enqueue(self) -> None:
        for partition in range(self.store.partitions):
            while True:  # a pass over several queues takes some of each
                made = await self.store.enqueue(partition, 0)
                for owed in made.outbox:
                    await self.store.apply_outbox(owed)
                if not made.enqueued:
                    break

    async def claim(self, *ids: str, owner: str = "executor-1") -> list[ClaimedTask]:
        await self.enqueue()
        for partition in range(self.store.partitions):
            await pop_ids(self.store, partition, [["photos/thumbnail:1"]], 100)
        return (await claim_ids(self.store, owner, "", list(ids))).claims

    async def finish(self, stored_id: str, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> None:
        (claim,) = await self.claim(stored_id)
        await self.end(claim, outcome, **fields)

    async def end(self, claim: ClaimedTask, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> None:
        held = HeldClaim(claim.task_id, claim.counter, claim.nonce)
        await self.store.set_results([RunResult(held, outcome, **fields)])

    async def counts(self) -> dict[str, int]:
        return {status.name: count for status, count in (await self.store.counts("photos/thumbnail")).items() if count}


def request(
    task_id: str = "",
    name: str = "photos/thumbnail",
    *,
    at_us: int | None = None,
    delay_us: int | None = None,
    durability: Any = t.DURABILITY_UNSPECIFIED,
    **spec: Any,
) -> f.ScheduleRequest:
    made = f.ScheduleRequest(id=task_id, durability=durability, spec=t.TaskSpec(**{"lambda": name, **spec}))
    if at_us is not None:
        made.at_us = at_us
    if delay_us is not None:
        made.delay_us = delay_us
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def bench(clock: Clock) -> AsyncIterator[Bench]:
    settings = StoreSettings(partitions=2, push_when_scheduled=False)  # tests take their tasks hop by hop
    store = await Store.open(settings, Timing(), clock, fake=fakeredis.FakeServer(version=(7, 4)))
    store.now = clock.wall_us
    bench = Bench(store, clock)
    await bench.register()
    yield bench
    bench.frontend.drain()
    await store.close()
