"""An executor between a controller and an HSC that do as the test says, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from google.protobuf.message import DecodeError

import atf
from atf.config.settings import ExecutorSettings, Timing
from atf.errors import AtfError
from atf.executor.first_time import ExecutorLoop
from atf.executor.held import HeldTask
from atf.executor.outcome import Outcome, Returned
from atf.executor.perform import MayStart, Performer, timed_out
from atf.executor.table import SlotState, Table, TableEntry
from atf.executor.workers import Workers
from atf.rpc import controller_pb2 as c, hsc_pb2 as h, task_pb2 as t
from atf.runtime import Runtime
from atf.sdk.lambdas import Lambda
from atf.testing.inline_workers import InlineWorkers
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring

app = atf.App("t")
ran: list[str] = []
"""What lambdas of this app wrote, in order; empty at the start of each world."""


@app.task
def note(word: str) -> str:
    ran.append(word)
    return word


@app.task
def whose(ctx: atf.Context) -> None:
    """Writes down which batch made its task."""
    ran.append("none" if ctx.batch is None else f"{ctx.batch.id} {ctx.batch.number} {ctx.batch.work_item_id}")


@app.task
async def nap(seconds: float) -> str:
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        ran.append("cancelled")
        raise
    return "rested"


@app.task
async def stubborn(seconds: float) -> str:
    """Goes on although it is cancelled."""
    until = asyncio.get_running_loop().time() + seconds
    while (left := until - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            ran.append("ignored")
    return "done at last"


@app.task
async def lingering(seconds: float) -> None:
    """Takes its time to end once it is cancelled."""
    try:
        await asyncio.sleep(600)
    finally:
        ran.append("cancelled")
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(left)


@app.task
def give_back(ctx: atf.Context, after: float | None = None) -> None:
    """Gives itself back, whether the executor drains or not."""
    ran.append(f"stopping {ctx.stopping}")
    raise atf.HandBack("not now", after=after)


@app.task
async def give_back_async(ctx: atf.Context) -> None:
    """Waits until the executor drains, and then gives itself back."""
    while not ctx.stopping:
        await asyncio.sleep(0.1)
    raise atf.HandBack


@app.task
def work() -> None:
    """Runs as long as the test wants; see HeldWorkers."""


def claim(
    task_id: str,
    lambda_name: str = "t/note",
    payload: bytes = b'{"word":"x"}',
    *,
    counter: int = 1,
    attempt: int = 1,
    losses: int = 0,
    timeout: float = 0,
    alone: bool = False,
    batch: t.BatchInfo | None = None,
) -> t.Claim:
    spec = t.TaskSpec(
        payload=payload,
        batch=batch,
        options=t.TaskOptions(
            max_losses=3,
            timeout_us=round(timeout * 1_000_000),
            backoff=t.Backoff(base_us=1_000_000, factor=2, max_us=600_000_000, jitter=0),
        ),
    )
    setattr(spec, "lambda", lambda_name)
    return t.Claim(
        task_id=task_id,
        token=t.Token(counter=counter, nonce="nonce"),
        spec=spec.SerializeToString(),
        attempt=attempt,
        run=attempt + losses,
        losses=losses,
        scheduled_at_us=1_700_000_000_000_000,
        alone=alone,
    )


_ASYNC = {name for name, each in app.lambdas.items() if each.is_async}


def _lambda_of(claim: t.Claim) -> str:
    try:
        return str(getattr(t.TaskSpec.FromString(claim.spec), "lambda"))
    except DecodeError:
        return ""


class FakeController:
    """Answers NextWork with what the test gives it; an error is raised. Waits like a long poll, and has what each call stream can run."""

    def __init__(self, runtime: Runtime) -> None:
        self.requests: list[c.NextWorkRequest] = []
        """Of the call stream of `def` lambdas."""
        self.async_requests: list[c.NextWorkRequest] = []
        self.low_volume_requests: list[c.NextWorkRequest] = []
        """Of either, for lambdas that do not come in great numbers."""
        self.last_requests: list[c.NextWorkRequest] = []
        """That say that the executor takes no more."""
        self.entered: list[c.EnterRequest] = []
        self.credentials: deque[t.Credential | AtfError] = deque()
        """What calls of Enter are answered."""
        self.reports: list[c.ReportRunsRequest] = []
        self.report_errors: deque[AtfError] = deque()
        """What the next reports are answered with."""
        self.number = 0
        self.keeps_names = True
        """Whether it knows the lambdas of a call by their number; one that was restarted does not."""
        self._runtime = runtime
        self._answers: defaultdict[str, deque[c.NextWorkReply | AtfError]] = defaultdict(deque)
        self._given = asyncio.Condition()

    def give(self, *claims: t.Claim, draining: bool = False, age: float = 0, number: int | None = None) -> None:
        if claims and number is None:
            self.number += 1
        sent_us = self._runtime.boottime_us() - round(age * 1_000_000)
        numbered = number if number is not None else self.number if claims else 0
        stream = "async" if claims and _lambda_of(claims[0]) in _ASYNC else "def"
        self.put(c.NextWorkReply(number=numbered, claims=claims, claim_sent_us=sent_us, draining=draining), stream)

    def put(self, answer: c.NextWorkReply | AtfError, stream: str = "def") -> None:
        self._answers[stream].append(answer)
        self._runtime.spawn(self._tell(), name="given")

    async def _tell(self) -> None:
        async with self._given:
            self._given.notify_all()

    async def enter(self, request: c.EnterRequest, *, timeout: float = 10) -> t.Credential:
        self.entered.append(request)
        answer = self.credentials.popleft() if self.credentials else t.Credential()
        if isinstance(answer, AtfError):
            raise answer
        return answer

    async def report_runs(self, request: c.ReportRunsRequest, *, timeout: float = 10) -> c.ReportRunsReply:
        self.reports.append(request)
        if self.report_errors:
            raise self.report_errors.popleft()
        return c.ReportRunsReply()

    async def next_work(self, request: c.NextWorkRequest, *, timeout: float = 70) -> c.NextWorkReply:
        if request.draining:
            self.last_requests.append(request)
            return c.NextWorkReply()
        kept = {"def": self.requests, "async": self.async_requests}
        kept.get(request.stream, self.low_volume_requests).append(request)
        answers = self._answers[request.stream]
        answer: c.NextWorkReply | AtfError = c.NextWorkReply()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.wait_us / 1_000_000), self._given:
                await self._given.wait_for(lambda: answers)
                answer = answers.popleft()
        if isinstance(answer, AtfError):
            raise answer
        answer.set = request.set if self.keeps_names else 0
        return answer


class FakeHsc:
    """Says OK unless the test says otherwise, and keeps what it heard."""

    def __init__(self) -> None:
        self.beats: list[h.HeartbeatRequest] = []
        self.results: list[h.Result] = []
        self.batches: list[int] = []
        self.returned: list[str] = []
        self.given_up: list[str] = []
        """Nonces of calls that brought no answer."""
        self.verdicts: dict[str, h.Verdict] = {}
        """Of heartbeats, by task id."""
        self.lost: set[str] = set()
        """Whose results are answered LOST."""
        self.failing: dict[str, AtfError] = {}
        """By method: raised instead of an answer, until it is taken out."""
        self.refuse: Callable[[h.Result], AtfError | None] = lambda _result: None
        self.firsts: dict[tuple[str, str], str] = {}
        """Keys that were asked for, and by which task first."""
        self.slow: float = 0
        """Seconds a heartbeat takes."""

    def _fail(self, method: str) -> None:
        if method in self.failing:
            raise self.failing[method]

    async def next_claims(self, request: h.NextClaimsRequest, *, timeout: float = 10) -> h.NextClaimsReply:
        raise AssertionError("an executor asks its controller")

    async def report_host(self, request: h.ReportHostRequest, *, timeout: float = 10) -> h.ReportHostReply:
        raise AssertionError("an executor reports no host")

    async def report_loss(self, request: h.ReportLossRequest, *, timeout: float = 10) -> h.ReportLossReply:
        raise AssertionError("an executor reports no loss")

    async def issue_credential(self, request: h.IssueCredentialRequest, *, timeout: float = 10) -> t.Credential:
        raise AssertionError("an executor asks its controller for it")

    async def first_time(self, request: h.FirstTimeRequest, *, timeout: float = 10) -> h.FirstTimeReply:
        self._fail("first_time")
        asked = [(each.namespace, each.key) for each in request.keys]
        return h.FirstTimeReply(
            first=[
                self.firsts.setdefault(key, each.task_id) == each.task_id
                for key, each in zip(asked, request.keys, strict=True)
            ]
        )

    async def heartbeat(self, request: h.HeartbeatRequest, *, timeout: float = 10) -> h.HeartbeatReply:
        self.beats.append(request)
        await asyncio.sleep(self.slow)
        self._fail("heartbeat")
        return h.HeartbeatReply(verdicts=[self.verdicts.get(each.claim.task_id, h.OK) for each in request.claims])

    async def set_results(self, request: h.SetResultsRequest, *, timeout: float = 10) -> h.SetResultsReply:
        await asyncio.sleep(0)
        self._fail("set_results")
        for result in request.results:
            if error := self.refuse(result):
                raise error
        self.results += request.results
        self.batches.append(len(request.results))
        return h.SetResultsReply(
            verdicts=[h.LOST if each.claim.task_id in self.lost else h.OK for each in request.results]
        )

    async def hand_back(self, request: h.HandBackRequest, *, timeout: float = 10) -> h.HandBackReply:
        await asyncio.sleep(0)
        self._fail("hand_back")
        self.returned += [each.task_id for each in request.claims]
        self.given_up += request.nonces
        return h.HandBackReply(verdicts=[h.OK] * len(request.claims))


class HeldWorkers:
    """Workers of `def` bodies that end when the test says so, as threads would; each runs only as far as its start."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.bridge = ExecutorLoop()
        self.waiting: deque[HeldTask] = deque()
        self.running: dict[str, HeldTask] = {}
        self.cancelled: list[str] = []

    def open(self, _performer: Performer, begin: MayStart, ended: Callable[[list[HeldTask]], None]) -> None:
        self._begin, self._ended = begin, ended
        self._loop = asyncio.get_running_loop()

    def put(self, tasks: Sequence[HeldTask]) -> None:
        self.waiting.extend(tasks)
        self._loop.call_soon(self._fill)

    def _fill(self) -> None:
        while self.waiting and len(self.running) < self.threads:
            task = self.waiting.popleft()
            if self._begin(task):
                self.running[task.task_id] = task
            else:
                self._ended([task])

    def end(self, task_id: str, outcome: Outcome | None = None) -> None:
        task = self.running.pop(task_id)
        task.ended_at = self._loop.time()
        task.outcome = timed_out(task) if task.timed_out else outcome or Returned(b"null", 0)
        self._ended([task])
        self._fill()

    def withdraw(self) -> list[HeldTask]:
        tasks = list(self.waiting)
        self.waiting.clear()
        return tasks

    def cancel(self, task: HeldTask, *, cut: bool = False) -> None:
        task.cut = task.cut or cut
        self.cancelled.append(task.task_id)

    def load(self, _is_async: bool) -> tuple[int, int, int]:
        return self.threads, len(self.running), len(self.waiting)

    def close(self) -> None:
        """Nothing to do."""


class World:
    """One executor, running, with its heartbeats."""

    def __init__(
        self,
        runtime: VirtualRuntime,
        workers: Workers,
        *,
        names: Sequence[str] = tuple(app.lambdas),
        settings: ExecutorSettings,
        slots: int = 600,
    ) -> None:
        ran.clear()
        self.runtime = runtime
        self.controller = FakeController(runtime)
        self.hsc = FakeHsc()
        self.workers = workers
        self.kinds = {app.lambdas[name].is_async for name in names}
        self.table = Table.in_memory(slots)
        self.timing = Timing()
        lambdas: dict[str, Lambda[..., object]] = {name: app.lambdas[name] for name in names}
        self.ended: list[tuple[int, str]] = []
        wired = Wiring(runtime, self.timing).executor(
            "e1",
            lambdas,
            controller=self.controller,
            hsc=self.hsc,
            workers=workers,
            table=self.table,
            settings=settings,
            end=self._end,
        )
        self.executor, self.heartbeats = wired.executor, wired.heartbeats
        self.run = runtime.spawn(self.executor.run(), name="executor")
        self._beating = runtime.spawn(self.heartbeats.run(), name="heartbeats")

    def _end(self, code: int, why: str) -> None:
        self.ended.append((code, why))
        self.executor.abort(code, why)

    async def settle(self) -> None:
        """Lets everything happen that needs no time."""
        await asyncio.sleep(0.0001)

    def slots(self, state: SlotState) -> list[str]:
        return [each.task_id for each in self.entries() if each.state is state]

    def entries(self) -> list[TableEntry]:
        return self.table.entries()

    def outcomes(self) -> dict[str, t.Outcome]:
        return {each.claim.task_id: each.outcome for each in self.hsc.results}

    def prefetch_is_right(self) -> bool:
        """Whether what the executor believes to be in its workers is there."""
        held = sum(known.held for known in self.executor.pipeline.prefetch.known.values())
        loads = [self.workers.load(is_async) for is_async in self.kinds]
        return held == sum(running + waiting for _, running, waiting in loads)

    async def close(self) -> None:
        await self.settle()
        assert self.prefetch_is_right()
        self._beating.cancel()
        self.run.cancel()
        await asyncio.gather(self._beating, self.run, return_exceptions=True)
        await asyncio.sleep(100)  # until the stubborn have ended too


@asynccontextmanager
async def inline(runtime: VirtualRuntime, settings: ExecutorSettings | None = None) -> AsyncIterator[World]:
    """An executor whose lambdas run on its own loop."""
    await asyncio.sleep(100)  # some time after the host has booted
    world = World(runtime, InlineWorkers(), settings=settings or ExecutorSettings())
    await world.settle()
    try:
        yield world
    finally:
        await world.close()


class HeldWorld(World):
    """An executor of two threads for `def` lambdas that the test ends."""

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.held = HeldWorkers(2)
        settings = ExecutorSettings(threads=2, stop_grace=5, drain_timeout=30)
        super().__init__(runtime, self.held, names=["t/work"], settings=settings)


def job(task_id: str, *, counter: int = 1, losses: int = 0, timeout: float = 0, alone: bool = False) -> t.Claim:
    """A claim of `work`."""
    return claim(task_id, "t/work", b"{}", counter=counter, losses=losses, timeout=timeout, alone=alone)


@asynccontextmanager
async def held(runtime: VirtualRuntime) -> AsyncIterator[HeldWorld]:
    await asyncio.sleep(100)
    world = HeldWorld(runtime)
    await world.settle()
    try:
        yield world
    finally:
        await world.close()
