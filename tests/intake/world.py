"""An intake before a real task store (on fakeredis), and executors that ask it. Counts the calls of the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any

import fakeredis

from atf.config.settings import StoreSettings, Timing
from atf.errors import Unavailable
from atf.intake.asks import Answer, Ask, AskKind
from atf.intake.intake import Intake
from atf.rpc.lambda_sets import LambdaSet
from atf.runtime import end
from atf.store.store import Store
from atf.store.values.claims import HeldClaim, Outcome, RunResult, Verdict
from atf.store.values.tasks import NewTask, TaskRecord
from atf.task import US
from atf.testing.runtime import VirtualRuntime
from tests.known import know

MAIL, BILL = "shop/mail", "shop/bill"
BEFORE, AFTER = "before", "after"
"""A call of the store fails, and had no effect; or had its effect."""


class World:
    """One intake and all around it.

    Attributes:
        calls: of the store, by verb.
        taken: the queues that each call asked for.
        faults: how the next calls of next_claims fail, by partition.
        away: partitions that answer nothing.
        renewals: how often an ask was answered `again`.
    """

    def __init__(self, store: Store, runtime: VirtualRuntime, ageing: float) -> None:
        self.store = store
        self.runtime = runtime
        self.intake = Intake(store=store, ageing=ageing, runtime=runtime)
        self.calls: Counter[str] = Counter()
        self.by_partition: Counter[int] = Counter()
        self.taken: list[list[str]] = []
        self.faults: dict[int, list[str]] = {}
        self.away: set[int] = set()
        self.renewals = 0
        self._number = 0
        for verb in ("next_claims", "filled_queues", "claims_of", "claim_pauses"):
            setattr(store, verb, self._counted(verb, getattr(store, verb)))

    def _counted(self, verb: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*args: Any, **more: Any) -> Any:
            self.calls[verb] += 1
            if verb not in {"next_claims", "filled_queues"}:
                return await call(*args, **more)
            partition = args[0]
            self.by_partition[partition] += 1
            if partition in self.away:
                raise Unavailable("the task store does not answer")
            if verb == "filled_queues":
                return await call(*args, **more)
            self.taken.append([queue for group in args[1] for queue in group])
            faults = self.faults.get(partition, [])
            fault = faults.pop(0) if faults else ""
            if fault == BEFORE:
                raise Unavailable("the task store does not answer")
            answer = await call(*args, **more)
            if fault == AFTER:
                raise Unavailable("the answer was lost")
            return answer

        return counted

    # --- tasks -------------------------------------------------------------------------------------------------------

    async def enqueue(
        self, count: int, name: str = MAIL, *, priority: int = 1, partition: int = 0, spec: bytes = b"spec"
    ) -> list[str]:
        """Schedules tasks for now and brings them into their queue. Answers their ids."""
        await know(self.store, name)
        tasks = []
        for _ in range(count):
            self._number += 1
            tasks.append(
                NewTask(f"t{self._number:04}", partition, name, priority, spec, b"digest", None, 0, 3, 3, 3600 * US)
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

    async def finish(self, answer: Answer) -> None:
        """The runs have ended well."""
        held = [HeldClaim(each.task_id, each.counter, each.nonce) for each in answer.claims]
        await self.store.set_results([RunResult(each, Outcome.SUCCEEDED) for each in held])

    async def misfit(self, answer: Answer, digest: str) -> None:
        """The payload of the first did not fit."""
        (claim, *_) = answer.claims
        held = HeldClaim(claim.task_id, claim.counter, claim.nonce)
        result = RunResult(held, Outcome.MISFIT, error="no", signature=digest, grace_us=600 * US)
        assert await self.store.set_results([result]) == [Verdict.OK]

    # --- asks --------------------------------------------------------------------------------------------------------

    def ask_of(
        self,
        owner: str = "e1",
        *,
        nonce: str = "",
        room: int = 256,
        lambdas: Collection[str] = (MAIL,),
        signature: str = "",
        without: Collection[str] = (),
        pool: str = "",
        host: str = "",
        max_bytes: int = 4 << 20,
        waited: float = 0.0,
    ) -> Ask:
        """An ask that comes now."""
        self._number += 1
        now = self.runtime.monotonic()
        return Ask(
            owner=owner,
            nonce=nonce or f"nonce{self._number}",
            kind=AskKind(pool, LambdaSet(dict.fromkeys(lambdas, signature)), frozenset(without)),
            host=host or owner,
            room=room,
            max_bytes=max_bytes,
            received=now,
            since=now - waited,
        )

    async def once(self, owner: str = "e1", *, wait: float = 1.0, repeated: bool = False, **fields: Any) -> Answer:
        """One ask, and its answer, whatever it is."""
        return await self.intake.ask(self.ask_of(owner, **fields), wait, repeated=repeated)

    async def ask(self, owner: str = "e1", *, wait: float = 1.0, of: Intake | None = None, **fields: Any) -> Answer:
        """What an executor does: asks, and asks again with the same nonce where it is told to."""
        began = self.runtime.monotonic()
        first, repeated = self.ask_of(owner, **fields), False
        while True:
            now = self.runtime.monotonic()
            ask = self.ask_of(owner, **{**fields, "nonce": first.nonce}, waited=now - began)
            try:
                answer = await (of or self.intake).ask(ask, wait - (now - began), repeated=repeated)
            except Unavailable:
                repeated = True
                if self.runtime.monotonic() - began >= wait:
                    return Answer()
                await asyncio.sleep(0.05)
                continue
            if not answer.again:
                return answer
            repeated = False
            self.renewals += 1

    def asking(self, owner: str = "e1", **fields: Any) -> asyncio.Task[Answer]:
        """The same, which stays open."""
        return self.runtime.spawn(self.ask(owner, **fields), name=f"ask {owner}")


def ids_of(answer: Answer) -> list[str]:
    return [each.task_id for each in answer.claims]


def world(
    *, partitions: int = 1, wakeups: bool = True, running: bool = True, ageing: float = 1.0
) -> Callable[[VirtualRuntime], contextlib.AbstractAsyncContextManager[World]]:
    """A world with a store of so many partitions; its intake runs unless told otherwise."""

    @contextlib.asynccontextmanager
    async def opened(runtime: VirtualRuntime) -> AsyncIterator[World]:
        stored = StoreSettings(partitions=partitions, wakeups=wakeups)
        store = await Store.open(stored, Timing(), runtime, fake=fakeredis.FakeServer())
        store.now = runtime.wall_us
        await know(store, MAIL)
        built = World(store, runtime, ageing)
        duty = runtime.spawn(built.intake.run() if running else asyncio.sleep(0), name="intake")
        try:
            yield built
        finally:
            await end([duty])
            await store.close()

    return opened


async def all_of(tasks: Sequence[asyncio.Task[Answer]]) -> list[Answer]:
    return await asyncio.gather(*tasks)
