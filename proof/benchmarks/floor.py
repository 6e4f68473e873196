"""The limit of this design: one client that calls the store's functions of a task's life, in batches, and does nothing else.

The functions are today's, or those that the foundation had: what this repository's own code added to a task's cost is their difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from atf.config.settings import StoreSettings, Timing
from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime, new_id
from atf.store.store import Store
from atf.store.values.claims import ClaimedTask, HeldClaim, Outcome, RunResult, Taker, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import NewTask
from tests.store import versions

from .known import OURS, SYSTEMS
from .ledger import payload
from .world import BenchmarkWorld

BATCH: Final = 256
_AT_ONCE: Final = 4
_NAME: Final = "bench/noop"
_QUEUE: Final = f"{_NAME}:1"
_DAY_US: Final = 86_400_000_000


class Lived(NamedTuple):
    """What tasks took: how many came to their end, the seconds, and the store's seconds of CPU."""

    ended: int
    seconds: float
    store_cpu_s: float


class Floor:
    """A store of its own, and a client that calls its functions. Made by `running`."""

    def __init__(self, world: BenchmarkWorld, store: Store, *, passes: bool) -> None:
        self._world, self._store, self._passes = world, store, passes
        self._runtime = SystemRuntime()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, *, foundation: bool = False) -> AsyncIterator[Floor]:
        """Within the block there is one.

        Args:
            foundation: whether it has the foundation's functions.
        """
        library = versions.FOUNDATION if foundation else versions.CURRENT
        kind = versions.FoundationStore if foundation else Store
        async with BenchmarkWorld(SYSTEMS[OURS], 8, workers=False) as world:
            await world.roles.stop()
            with versions.in_place(library):
                store = await kind.open(
                    StoreSettings(redis_url=world.store.url, partitions=1), Timing(), SystemRuntime()
                )
            try:
                await store.register_lambdas([LambdaRecord(_NAME, b"", 1_000_000, 10_000_000, paused=False)])
                yield cls(world, store, passes=foundation)
            finally:
                await store.close()

    async def lives(self, tasks: int, batch: int = BATCH) -> Lived:
        """Batches of tasks pass through all their moves, some batches at once.

        Args:
            tasks: how many.
            batch: tasks of each call, at most.
        """
        begun, before = time.monotonic(), self._world.cpu()["store"]
        batches = iter([range(start, min(start + batch, tasks)) for start in range(0, tasks, batch)])
        ended = sum(await asyncio.gather(*(self._pipeline(batches, batch) for _ in range(_AT_ONCE))))
        return Lived(ended, time.monotonic() - begun, self._world.cpu()["store"] - before)

    async def _pipeline(self, batches: Iterator[range], most: int) -> int:
        store, ended = self._store, 0
        for numbers in batches:
            await store.schedule([_new(number, new_id(self._runtime.random)) for number in numbers])
            if self._passes:  # today what is due is pushed as it is stored
                await store.enqueue(0, 0)
            while claims := await self._claims(most):
                verdicts = await store.set_results([_succeeded(each) for each in claims])
                ended += verdicts.count(Verdict.OK)
        return ended

    async def _claims(self, most: int) -> list[ClaimedTask]:
        taker = Taker("floor", new_id(self._runtime.random), most)
        taken = await self._store.next_claims(0, [[_QUEUE]], [taker], want=most)
        return taken.claims[taker.nonce]


def _new(number: int, task_id: str) -> NewTask:
    spec = t.TaskSpec(payload=b'{"text":"' + payload(number).encode() + b'"}')
    setattr(spec, "lambda", _NAME)
    return NewTask(task_id, 0, _NAME, 1, spec.SerializeToString(), b"d" * 16, None, 0, 10, 3, _DAY_US)


def _succeeded(claim: ClaimedTask) -> RunResult:
    return RunResult(HeldClaim(claim.task_id, claim.counter, claim.nonce), Outcome.SUCCEEDED, b"null", 0, ran_us=1)
