"""An HSC before a real task store (on fakeredis), and hosts with executors that call it as a controller does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import fakeredis

from atf.config.settings import HscSettings, StoreSettings, Timing
from atf.errors import Unavailable
from atf.hsc.service import HscService
from atf.rpc import hsc_pb2 as h
from atf.rpc.lambda_sets import LambdaSet
from atf.runtime import end
from atf.store.store import Store
from atf.store.values.claims import HeldClaim, Outcome, RunResult
from atf.store.values.tasks import NewTask, TaskRecord
from atf.task import US
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring
from tests.known import know

MAIL = "shop/mail"


class World:
    """One HSC and all around it."""

    def __init__(self, store: Store, runtime: VirtualRuntime, settings: HscSettings) -> None:
        self.store = store
        self.runtime = runtime
        self.wiring = Wiring(runtime, Timing())
        self.settings = settings
        self.hsc = self.another_hsc()
        self._number = 0

    def another_hsc(self) -> HscService:
        return self.wiring.hsc(self.store, self.settings)

    # --- tasks -------------------------------------------------------------------------------------------------------

    async def enqueue(self, count: int, name: str = MAIL, *, priority: int = 1, partition: int = 0) -> list[str]:
        """Schedules tasks for now and brings them into their queue. Answers their ids."""
        await know(self.store, name)
        tasks = []
        for _ in range(count):
            self._number += 1
            tasks.append(
                NewTask(f"t{self._number:04}", partition, name, priority, b"spec", b"digest", None, 0, 3, 3, 3600 * US)
            )
        ids = [each.id for each in await self.store.schedule(tasks)]
        await self.consume(partition)
        return ids

    async def consume(self, partition: int = 0) -> None:
        """What a store consumer does: passes until nothing is due."""
        while (await self.store.enqueue(partition, 0)).next_in_us == 0:
            pass

    async def record(self, task_id: str) -> TaskRecord:
        (found,) = await self.store.get_tasks([task_id])
        assert found is not None
        return found

    async def finish(self, reply: h.NextClaimsReply) -> None:
        """The runs have ended well."""
        held = [HeldClaim(each.task_id, each.token.counter, each.token.nonce) for each in reply.claims]
        await self.store.set_results([RunResult(each, Outcome.SUCCEEDED) for each in held])

    # --- calls -------------------------------------------------------------------------------------------------------

    def request(
        self,
        executor_id: str = "e1",
        *,
        lambdas: Collection[str] = (MAIL,),
        signature: str = "",
        most: int = 256,
        wait: float = 1.0,
        host: str = "",
        named: bool = True,
        **fields: Any,
    ) -> h.NextClaimsRequest:
        """A call of NextClaims; where it is `named`, with the lambdas of its set."""
        self._number += 1
        runs = LambdaSet(dict.fromkeys(lambdas, signature))
        said = {
            "executor_id": executor_id,
            "nonce": f"nonce{self._number}",
            "max_tasks": most,
            "wait_us": round(wait * US),
            "host": host or executor_id,
            "lambda_set": runs.digest,
            "lambdas": list(lambdas) if named else [],
            "signatures": [signature] * len(lambdas) if named and signature else [],
            "heartbeat_timeout_us": 16 * US,
        }
        return h.NextClaimsRequest(**{**said, **fields})

    async def ask(
        self, executor_id: str = "e1", *, wait: float = 1.0, of: HscService | None = None, **fields: Any
    ) -> h.NextClaimsReply:
        """Asks, and asks again where it is told to, as a controller does."""
        began, request = self.runtime.monotonic(), self.request(executor_id, wait=wait, **fields)
        while True:
            passed_us = round((self.runtime.monotonic() - began) * US)
            request.waited_us, request.wait_us = passed_us, max(round(wait * US) - passed_us, 0)
            reply = await (of or self.hsc).next_claims(request)
            if not reply.again:
                return reply

    def asking(self, executor_id: str = "e1", **fields: Any) -> asyncio.Task[h.NextClaimsReply]:
        """The same, which stays open."""
        return self.runtime.spawn(self.ask(executor_id, **fields), name=f"ask {executor_id}")


class Host:
    """A worker host as its controller reports it.

    Attributes:
        drains: what the HSC has said last.
        answers: how often it has said something.
    """

    def __init__(
        self, w: World, name: str, executors: Mapping[str, LambdaSet], *, pool: str = "", of: HscService | None = None
    ) -> None:
        self.w, self.name, self.pool, self.of = w, name, pool, of or w.hsc
        self.executors = dict(executors)
        self.drains = False
        self.answers = 0
        self._changed = asyncio.Event()
        self.duty = w.runtime.spawn(self._run(), name=f"host {name}")

    def change(self, executors: Mapping[str, LambdaSet], of: HscService | None = None) -> None:
        """Reports others from now on, perhaps to another HSC."""
        self.executors, self.of = dict(executors), of or self.of
        self._changed.set()

    def request(self, *, wait: float = 10.0, **fields: Any) -> h.ReportHostRequest:
        sets = {each.digest: each for each in self.executors.values()}.values()
        said = {
            "pool": self.pool,
            "host": self.name,
            "executors": [
                h.HostExecutor(executor_id=each, lambda_sets=[runs.digest]) for each, runs in self.executors.items()
            ],
            "sets": [named(each) for each in sets],
            "known_us": 30 * US,
            "drains": self.drains,
            "wait_us": round(wait * US),
            "version": "1.0",
            "process": f"{self.name}:7",
        }
        return h.ReportHostRequest(**{**said, **fields})

    async def leave(self) -> None:
        await end([self.duty])
        await self.of.report_host(self.request(leaves=True, wait=0.0))

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            report = self.w.runtime.spawn(self.of.report_host(self.request()), name="report")
            changed = self.w.runtime.spawn(self._changed.wait(), name="changed")
            try:
                await asyncio.wait({report, changed}, return_when=asyncio.FIRST_COMPLETED)
                if report.done():
                    self.drains = report.result().drains
                    self.answers += 1
            except Unavailable:
                await asyncio.sleep(1)
            finally:
                await end([report, changed])


def named(runs: LambdaSet) -> h.NamedSet:
    return h.NamedSet(
        digest=runs.digest,
        lambdas=sorted(runs.lambdas),
        signatures=[runs.signatures[each] for each in sorted(runs.signatures)],
    )


def ids_of(reply: h.NextClaimsReply) -> list[str]:
    return [each.task_id for each in reply.claims]


def world(
    *, partitions: int = 1, wakeups: bool = True, **settings: Any
) -> Callable[[VirtualRuntime], contextlib.AbstractAsyncContextManager[World]]:
    """A world with a store of so many partitions; its HSC's duties run."""

    @contextlib.asynccontextmanager
    async def opened(runtime: VirtualRuntime) -> AsyncIterator[World]:
        stored = StoreSettings(partitions=partitions, wakeups=wakeups)
        store = await Store.open(stored, Timing(), runtime, fake=fakeredis.FakeServer())
        store.now = runtime.wall_us
        await know(store, MAIL)
        built = World(store, runtime, HscSettings(**settings))
        duty = runtime.spawn(built.hsc.run(), name="hsc")
        try:
            yield built
        finally:
            await end([duty])
            await store.close()

    return opened


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Waits, on virtual time, until something holds."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.05)


def sets(executors: Sequence[str], *lambdas: str) -> dict[str, LambdaSet]:
    """Executors that run the same."""
    return dict.fromkeys(executors, LambdaSet(dict.fromkeys(lambdas or (MAIL,), "")))
