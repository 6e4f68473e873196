"""A controller before a real task store (on fakeredis) and a real HSC whose calls a test can make fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any

import fakeredis

from atf.config.settings import ControllerSettings, StoreSettings, Timing
from atf.controller.service import ControllerService
from atf.errors import DeadlineExceeded, Unavailable
from atf.hsc.service import HscService
from atf.rpc import controller_pb2 as c, hsc_pb2 as h, task_pb2 as t
from atf.runtime import end
from atf.store.store import Store
from atf.store.values.claims import ClaimRenewal, HeldClaim
from atf.store.values.tasks import NewTask, TaskRecord
from atf.task import US
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring
from tests.known import know

BEFORE = "before"
"""The call fails and had no effect."""
AFTER = "after"
"""The call has its effect, and its answer is lost."""
SLOW_S = 30.0
DIGEST = "dddddddddddd"
"""Of the signature that executors run which do not name another one."""


class Hsc:
    """The real HSC behind a line that fails as told. Counts calls by verb and keeps the requests."""

    def __init__(self, logic: HscService) -> None:
        self._logic = logic
        self.faults: dict[str, deque[str]] = defaultdict(deque)
        self.down = False
        self.frozen = asyncio.Event()  # set: NextClaims has its effect, and its answer takes SLOW_S
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self._named: set[str] = set()

    async def _call(self, verb: str, request: Any) -> Any:
        self.requests[verb].append(request)
        fault = BEFORE if self.down else self.faults[verb].popleft() if self.faults[verb] else ""
        if fault == BEFORE:
            raise Unavailable("connection refused")
        reply = await getattr(self._logic, verb)(request)
        if fault == AFTER:
            raise DeadlineExceeded("no answer")
        return reply

    async def next_claims(self, request: h.NextClaimsRequest, *, timeout: float = 10) -> h.NextClaimsReply:
        if not request.lambdas and request.lambda_set not in self._named:
            self._named.add(request.lambda_set)  # it is to be named first, to which nothing happens
            return h.NextClaimsReply(unknown_set=True)
        reply: h.NextClaimsReply = await self._call("next_claims", request)
        if self.frozen.is_set() and reply.claims:
            await asyncio.sleep(SLOW_S)
        return reply

    async def report_host(self, request: h.ReportHostRequest, *, timeout: float = 10) -> h.ReportHostReply:
        return await self._call("report_host", request)  # type: ignore[no-any-return]

    async def heartbeat(self, request: h.HeartbeatRequest, *, timeout: float = 10) -> h.HeartbeatReply:
        return await self._call("heartbeat", request)  # type: ignore[no-any-return]

    async def set_results(self, request: h.SetResultsRequest, *, timeout: float = 10) -> h.SetResultsReply:
        return await self._call("set_results", request)  # type: ignore[no-any-return]

    async def hand_back(self, request: h.HandBackRequest, *, timeout: float = 10) -> h.HandBackReply:
        return await self._call("hand_back", request)  # type: ignore[no-any-return]

    async def report_loss(self, request: h.ReportLossRequest, *, timeout: float = 10) -> h.ReportLossReply:
        return await self._call("report_loss", request)  # type: ignore[no-any-return]

    async def issue_credential(self, request: h.IssueCredentialRequest, *, timeout: float = 10) -> t.Credential:
        return await self._call("issue_credential", request)  # type: ignore[no-any-return]

    async def first_time(self, request: h.FirstTimeRequest, *, timeout: float = 10) -> h.FirstTimeReply:
        raise AssertionError("a controller asks for no keys")


class World:
    """One controller and all around it."""

    def __init__(self, store: Store, runtime: VirtualRuntime, settings: ControllerSettings) -> None:
        self.store = store
        self.runtime = runtime
        self.settings = settings
        self.timing = Timing()
        self.wiring = Wiring(runtime, self.timing)
        self.logic = self.wiring.hsc(store)
        self.hsc = Hsc(self.logic)
        self.guarded: set[str] = set()
        """Executors whose guards are those of `controller`."""
        self.controller = self.another_controller(guarded=self.guarded)
        self._number = 0

    def another_controller(
        self,
        settings: ControllerSettings | None = None,
        host: str = "host-1",
        guarded: Collection[str] = frozenset(),
    ) -> ControllerService:
        return self.wiring.controller(self.hsc, settings or self.settings, host=host, guarded=guarded)

    # --- tasks -------------------------------------------------------------------------------------------------------

    async def enqueue(
        self,
        count: int,
        name: str = "shop/mail",
        *,
        priority: int = 1,
        partition: int = 0,
        spec: bytes = b"",
        attempts: int = 3,
    ) -> list[str]:
        """Schedules tasks for now and brings them into their queue. Answers their ids."""
        await know(self.store, name)
        tasks = []
        for _ in range(count):
            self._number += 1
            tasks.append(
                NewTask(
                    f"t{self._number}",
                    partition,
                    name,
                    priority,
                    spec or spec_of(name),
                    b"digest",
                    None,
                    0,
                    attempts,
                    3,
                    3600 * US,
                )
            )
        ids = [each.id for each in await self.store.schedule(tasks)]
        await self.consume(partition)
        return ids

    async def consume(self, partition: int = 0) -> int:
        """What a store consumer does: passes until nothing is due. Answers how many were enqueued again."""
        again = 0
        while True:
            made = await self.store.enqueue(partition, 0)
            again += made.enqueued_again
            if made.next_in_us != 0:
                return again

    async def record(self, task_id: str) -> TaskRecord:
        (found,) = await self.store.get_tasks([task_id])
        assert found is not None
        return found

    async def start(self, _executor_id: str, claims: Sequence[t.Claim]) -> None:
        """A heartbeat says that these have started."""
        held = [HeldClaim(each.task_id, each.token.counter, each.token.nonce) for each in claims]
        await self.store.heartbeat([ClaimRenewal(each, started=True) for each in held])

    # --- calls -------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        executor_id: str = "e1",
        *,
        stream: str = "def",
        ack: int = 0,
        call: int = 0,
        most: int = 256,
        wait: float = 1.0,
        lambdas: Sequence[str] = ("shop/mail",),
        heartbeat_timeout_us: int = 16 * US,
        pool: str = "",
        signatures: Sequence[str] | None = None,
        of: ControllerService | None = None,
    ) -> c.NextWorkReply:
        """One NextWork."""
        self._number += 1
        request = c.NextWorkRequest(
            executor_id=executor_id,
            stream=stream,
            nonce=f"n{self._number}",
            ack=ack,
            call=call,
            max_tasks=most,
            wait_us=round(wait * US),
            lambdas=lambdas,
            boot_id=self.runtime.boot_id(),
            heartbeat_timeout_us=heartbeat_timeout_us,
            pool=pool,
            signatures=[DIGEST] * len(lambdas) if signatures is None else signatures,
        )
        return await (of or self.controller).next_work(request)

    def asking(self, executor_id: str = "e1", **fields: Any) -> asyncio.Task[c.NextWorkReply]:
        """One NextWork that stays open."""
        return self.runtime.spawn(self.ask(executor_id, **fields), name=f"ask {executor_id}")


def spec_of(name: str) -> bytes:
    """The spec of a task of a lambda."""
    spec = t.TaskSpec()
    setattr(spec, "lambda", name)
    return spec.SerializeToString()


def ids_of(reply: c.NextWorkReply) -> list[str]:
    return [each.task_id for each in reply.claims]


def refs_of(claims: Sequence[t.Claim]) -> list[list[Any]]:
    """Claims as a guard writes them."""
    return [[each.task_id, each.token.counter, each.token.nonce] for each in claims]


def world(
    *, partitions: int = 1, wakeups: bool = True, **settings: Any
) -> Callable[[VirtualRuntime], contextlib.AbstractAsyncContextManager[World]]:
    """A world with a store of so many partitions, in which an HSC and a controller run."""

    @contextlib.asynccontextmanager
    async def opened(runtime: VirtualRuntime) -> AsyncIterator[World]:
        stored = StoreSettings(partitions=partitions, wakeups=wakeups, push_when_scheduled=False)  # its tests enqueue
        store = await Store.open(stored, Timing(), runtime, fake=fakeredis.FakeServer())
        store.now = runtime.wall_us
        await know(store, "shop/mail")
        built = World(store, runtime, ControllerSettings(**settings))
        duties = [runtime.spawn(each.run(), name="duty") for each in (built.logic, built.controller)]
        try:
            yield built
        finally:
            await end(duties)
            await store.close()

    return opened


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Waits, on virtual time, until something holds."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.05)
