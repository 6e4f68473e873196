"""A controller between executors that a test plays and an HSC that does as the test says, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from atf.config.settings import ControllerSettings, Timing
from atf.controller.service import ControllerService
from atf.errors import AtfError
from atf.rpc import controller_pb2 as c, hsc_pb2 as h, task_pb2 as t
from atf.runtime import end
from atf.task import US
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring

Step = h.NextClaimsReply | AtfError
DIGEST = "dddddddddddd"


class ScriptedHsc:
    """Answers NextClaims with what the test has put, after so many seconds; without any it waits as a long poll does. All else is taken."""

    def __init__(self) -> None:
        self.asked: list[h.NextClaimsRequest] = []
        self.asked_at: list[float] = []
        self.steps: deque[tuple[float, Step]] = deque()
        self.handed_back: list[str] = []
        self.given_up: list[tuple[str, str]] = []
        self.losses: list[str] = []
        self.hosts: list[h.ReportHostRequest] = []
        self.host_steps: deque[h.ReportHostReply | AtfError] = deque()
        self.issued: list[str] = []
        self._host_news = asyncio.Event()

    def put(self, *steps: Step, after: float = 0.0) -> None:
        """What the next calls are answered."""
        self.steps.extend((after, each) for each in steps)

    def say(self, step: h.ReportHostReply | AtfError) -> None:
        """What the open or the next call of ReportHost is answered."""
        self.host_steps.append(step)
        self._host_news.set()

    async def next_claims(self, request: h.NextClaimsRequest, *, timeout: float = 70) -> h.NextClaimsReply:
        self.asked.append(request)
        self.asked_at.append(asyncio.get_running_loop().time())
        if not self.steps:
            await asyncio.sleep(request.wait_us / US)
            return h.NextClaimsReply()
        after, step = self.steps.popleft()
        await asyncio.sleep(after)
        if isinstance(step, AtfError):
            raise step
        return step

    async def report_host(self, request: h.ReportHostRequest, *, timeout: float = 70) -> h.ReportHostReply:
        self.hosts.append(request)
        self._host_news.clear()
        if not self.host_steps:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(request.wait_us / US):
                    await self._host_news.wait()
        step = (
            self.host_steps.popleft() if self.host_steps else h.ReportHostReply(drains=request.drains, everywhere=True)
        )
        if isinstance(step, AtfError):
            raise step
        return step

    async def hand_back(self, request: h.HandBackRequest, *, timeout: float = 10) -> h.HandBackReply:
        self.handed_back += [each.task_id for each in request.claims]
        self.given_up += [(request.executor_id, each) for each in request.nonces]
        return h.HandBackReply(verdicts=[h.OK] * len(request.claims))

    async def issue_credential(self, request: h.IssueCredentialRequest, *, timeout: float = 10) -> t.Credential:
        self.issued.append(request.executor_id)
        return t.Credential()

    async def report_loss(self, request: h.ReportLossRequest, *, timeout: float = 10) -> h.ReportLossReply:
        self.losses += [each.task_id for each in request.claims]
        return h.ReportLossReply(verdicts=[h.OK] * len(request.claims))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a controller does not call {name}")


class Script:
    """The controller, and calls of its executors."""

    def __init__(self, runtime: VirtualRuntime, **settings: Any) -> None:
        self.runtime = runtime
        self.hsc = ScriptedHsc()
        self.guarded: set[str] = set()
        self._wiring, self._settings = Wiring(runtime, Timing()), ControllerSettings(**settings)
        self.controller = self.another_controller()
        self.open: list[asyncio.Task[c.NextWorkReply]] = []
        self._calls = 0

    def another_controller(self) -> ControllerService:
        """One whose duties don't run."""
        return self._wiring.controller(self.hsc, self._settings, host="host-1", guarded=self.guarded)

    async def ask(
        self,
        executor_id: str = "e1",
        *,
        stream: str = "def",
        nonce: str = "",
        ack: int = 0,
        call: int = 0,
        most: int = 10,
        wait: float = 60.0,
        lambdas: Sequence[str] = ("shop/mail", "shop/bill"),
        draining: bool = False,
    ) -> c.NextWorkReply:
        """One NextWork, under a nonce of its own unless told otherwise."""
        self._calls += 1
        request = c.NextWorkRequest(
            executor_id=executor_id,
            stream=stream,
            nonce=nonce or f"n{self._calls}",
            ack=ack,
            call=call,
            max_tasks=most,
            wait_us=round(wait * US),
            lambdas=lambdas,
            signatures=[DIGEST] * len(lambdas),
            boot_id=self.runtime.boot_id(),
            heartbeat_timeout_us=Timing().heartbeat_timeout_us,
            draining=draining,
        )
        return await self.controller.next_work(request)

    def asking(self, executor_id: str = "e1", **fields: Any) -> asyncio.Task[c.NextWorkReply]:
        """One NextWork that stays open."""
        call = self.runtime.spawn(self.ask(executor_id, **fields), name=f"ask {executor_id}")
        self.open.append(call)
        return call

    async def settle(self) -> None:
        """Lets everything happen that needs no time."""
        await asyncio.sleep(0.0001)


def claim(task_id: str, name: str = "shop/mail") -> t.Claim:
    spec = t.TaskSpec(payload=b"{}")
    setattr(spec, "lambda", name)
    return t.Claim(
        task_id=task_id, token=t.Token(counter=1, nonce="n"), spec=spec.SerializeToString(), attempt=1, run=1
    )


def claims(*task_ids: str, name: str = "shop/mail") -> h.NextClaimsReply:
    return h.NextClaimsReply(claims=[claim(each, name) for each in task_ids])


def scripted(**settings: Any) -> Callable[[VirtualRuntime], contextlib.AbstractAsyncContextManager[Script]]:
    """A controller whose duties run."""

    @contextlib.asynccontextmanager
    async def opened(runtime: VirtualRuntime) -> AsyncIterator[Script]:
        await asyncio.sleep(100)  # some time after the host has booted
        script = Script(runtime, **settings)
        duty = runtime.spawn(script.controller.run(), name="controller")
        await script.settle()
        try:
            yield script
        finally:
            await end([duty, *script.open])

    return opened


AGAIN = h.NextClaimsReply(again=True)
UNKNOWN_SET = h.NextClaimsReply(unknown_set=True)
