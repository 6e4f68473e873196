"""No log holds a payload, a result, a token or a password, at any level and in any form; and no line of one can be forged."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import product
from typing import Any, Self

import aiohttp
import pytest

import atf
from atf.config.settings import (
    FrontendSettings,
    HscSettings,
    LogSettings,
    Timing,
)
from atf.controller.guards import event_of
from atf.controller.losses import parse_death, report_death
from atf.controller.reports import Reports
from atf.executor.workers import ThreadAndLoopWorkers
from atf.frontend.dapr.http import HttpPort
from atf.frontend.dapr.runtime import DaprRuntime
from atf.hsc.service import HscService
from atf.log import get_logger, setup
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t
from atf.runtime import end
from atf.testing.wiring import Wiring

from .catalogue import RULES, put
from .test_watch import initial, watched
from .texts import acts
from .world import EXECUTOR, INVALID, METHODS, OK, World, full_batch, next_claims, opened, schedule

SECRET = "5ecret"
NONCE = f"{SECRET}-nonce"
FOR_PEOPLE = {
    *(("who",), ("why",), ("requests", "who"), ("requests", "why")),
    *(("labels", "key"), ("labels", "value")),
    ("name",),
    *(
        ("metadata", *path)
        for path in (("namespace",), ("app_id",), ("target", "actor", "type"), ("target", "actor", "id"))
    ),
}
"""What is no secret: who asks for a change and why, the labels of a gate or a redrive, why an executor died, and the names of jobs, which may hold any character where they are Dapr's."""


class Said:
    """All that is logged, by ATF and by everything else in this process."""

    def __init__(self, form: str) -> None:
        self._stream = io.StringIO()
        self._others = logging.StreamHandler(self._stream)
        setup(LogSettings(log_level="debug", log_format=form), "torture", stream=self._stream)

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self._others)
        logging.getLogger().setLevel(logging.DEBUG)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self._others)
        logging.getLogger().setLevel(logging.WARNING)


@pytest.fixture(params=["json", "console"])
def said(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Said]:
    from atf import log

    monkeypatch.setattr(log.output, "logger", log.output.logger)
    with Said(request.param) as made:
        yield made


async def life(world: World) -> None:
    """A task's life, with a secret wherever one can be."""
    raw = f'{{"path":"{SECRET}"}}'.encode()
    stored = (await world.answer("Frontend.Schedule", schedule("a", payload=raw, labels={SECRET: SECRET}))).id
    many = f.ScheduleManyRequest(requests=[schedule(f"m{n}", payload=raw) for n in range(3)])
    await world.answer("Frontend.ScheduleMany", many)
    claims: list[t.Claim] = []
    for partition in range(world.store.partitions):
        await world.store.enqueue(partition, 0)
    while len(claims) < 3:
        claims += (await world.answer("HSC.NextClaims", next_claims(nonce=f"{NONCE}{len(claims)}"))).claims
    refs = [t.ClaimRef(task_id=each.task_id, token=each.token) for each in claims]
    beats = [h.HeldClaim(claim=each, started=True, progress=SECRET) for each in refs]
    await world.answer("HSC.Heartbeat", h.HeartbeatRequest(executor_id=EXECUTOR, claims=beats))
    done = h.Result(claim=refs[0], outcome=t.SUCCEEDED, result=SECRET.encode(), error=SECRET)
    await world.answer("HSC.SetResults", h.SetResultsRequest(executor_id=EXECUTOR, results=[done]))
    await world.answer("HSC.HandBack", h.HandBackRequest(executor_id=EXECUTOR, claims=refs[1:2]))
    await world.answer("HSC.ReportLoss", h.ReportLossRequest(executor_id=EXECUTOR, claims=refs[2:], why="killed"))
    await world.answer("Frontend.GetTask", f.GetTaskRequest(id=stored, with_spec=True))
    await world.answer("Frontend.ExplainTask", f.ExplainTaskRequest(id=stored))


async def test_a_life_leaves_no_secret_in_a_log(said: Said) -> None:
    async with opened(gives=True) as world:
        await life(world)
    assert "report_loss" in said.text
    assert SECRET not in said.text


async def test_a_refusal_leaves_no_secret_in_a_log(said: Said) -> None:
    async with opened() as world:
        for method in METHODS:
            for path in RULES[method].keys() - FOR_PEOPLE:
                await world.ask(method, put(world.valid(method), path, f"\x1b {SECRET}"))
            await world.send(method, world.valid(method).SerializeToString() + SECRET.encode())
    assert SECRET not in said.text


async def test_a_bug_leaves_no_secret_in_a_log(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its traceback names lines of code, never what was in their variables."""
    async with opened() as world:

        async def fails(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("of ours")

        works = world.store.link.call
        monkeypatch.setattr(world.store.link, "call", fails)
        raw = SECRET.encode()
        ref = t.ClaimRef(task_id="0-a", token=t.Token(counter=1, nonce=NONCE))
        calls = {
            "Frontend.Schedule": schedule("a", payload=raw),
            "Frontend.ScheduleMany": f.ScheduleManyRequest(requests=[schedule("a", payload=raw)]),
            "HSC.NextClaims": next_claims(repeated=True),
            "HSC.Heartbeat": h.HeartbeatRequest(executor_id=EXECUTOR, claims=[h.HeldClaim(claim=ref)]),
            "HSC.HandBack": h.HandBackRequest(executor_id=EXECUTOR, claims=[ref]),
            "HSC.ReportLoss": h.ReportLossRequest(executor_id=EXECUTOR, claims=[ref], why=SECRET),
            "HSC.SetResults": h.SetResultsRequest(
                executor_id=EXECUTOR, results=[h.Result(claim=ref, outcome=t.SUCCEEDED, result=raw)]
            ),
        }
        for method, request in calls.items():
            answer = await world.ask(method, request)
            assert answer.sentence == f"{METHODS[method].name} failed inside the server; its log has the details"
        monkeypatch.setattr(world.store.link, "call", works)
    assert said.text.count("ZeroDivisionError: of ours") == len(calls)
    assert SECRET not in said.text


async def test_a_stream_leaves_no_secret_in_a_log(said: Said) -> None:
    async with opened() as world:
        header, items, end = full_batch("b")
        items.items.items[0].payload = f'{{"path":"{SECRET}"}}'.encode()
        good = [each.SerializeToString() for each in (header, items, end)]
        assert (await world.stream(*good)).code is OK
        items.items.items[0].payload = f'"\x1b{SECRET}'.encode()
        for bad in (items.SerializeToString(), good[1] + SECRET.encode()):
            assert (await world.stream(good[0], bad)).code is not OK
        assert (await watched(world, f"\x08{SECRET}".encode())).code is INVALID
        assert (await watched(world, initial(), SECRET.encode())).code is INVALID
    assert SECRET not in said.text


async def test_a_call_of_dapr_s_http_leaves_no_secret_in_a_log(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as world:
        frontend = Wiring(world.runtime, Timing()).frontend(world.store)
        dapr = DaprRuntime(frontend, FrontendSettings(dapr_app="orders=127.0.0.1:1", dapr_app_id="orders"))
        port = HttpPort(dapr, grace=1)
        address = await port.open("127.0.0.1:0")
        try:
            async with aiohttp.ClientSession(f"http://{address}") as caller:
                good = {"schedule": "@every 1h", "data": {"word": SECRET}}
                codes = [
                    (await caller.post("/v1.0/jobs/good", json=good)).status,
                    (await caller.get("/v1.0/jobs/good")).status,
                    (await caller.post("/v1.0/jobs/bad", json={**good, "schedule": 7})).status,
                    (await caller.post("/v1.0/jobs/worse", data=f'{{"data":"{SECRET}')).status,
                ]
                monkeypatch.setattr(dapr, "schedule_job", lambda *_: 1 / 0)
                codes.append((await caller.post("/v1.0/jobs/bug", json=good)).status)
        finally:
            await port.stop()
            frontend.drain()
    assert codes == [204, 200, 400, 400, 500]
    assert "ZeroDivisionError" in said.text
    assert SECRET not in said.text


app = atf.App("marked")
called = threading.Event()
"""A callback has run."""


class Odd:
    """What can't be encoded, and shows what it holds."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


@app.task(redact=["word"], max_attempts=1)
def gives(ctx: atf.Context, word: str) -> str:
    ctx.progress(word)
    assert ctx.first_time(word + ctx.task_id)
    return word


@app.task(redact=["word"], max_attempts=1)
def gives_bytes(word: str) -> bytes:
    return word.encode()


@app.task(redact=["word"], max_attempts=1)
def gives_odd(word: str) -> Any:
    return Odd(word)


@app.task(redact=["word"], max_attempts=1)
def fails(word: str) -> None:
    raise ValueError(word)


@app.task(redact=["word"], max_attempts=2)
def asks_again(word: str) -> None:
    raise atf.Retry(word, after=0.001)


@app.task(redact=["word"], max_attempts=1)
def gives_up(word: str) -> None:
    raise atf.Fatal(word)


@app.task(redact=["word"], max_attempts=1)
def leaves(word: str) -> None:
    raise SystemExit(word)


@app.task(redact=["word"], max_attempts=1, timeout=0.05)
async def rests(word: str) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        raise ValueError(word)


@app.task(redact=["word"], max_attempts=1)
async def fails_async(word: str) -> None:
    raise ValueError(word)


@app.task(redact=["word"], max_attempts=1)
async def leaves_beside(word: str) -> None:
    """In an asyncio task of its own, which ends the loop."""

    async def leave() -> None:
        raise SystemExit(word)

    beside = asyncio.get_running_loop().create_task(leave())
    await asyncio.wait({beside})
    assert isinstance(beside.exception(), SystemExit)


@app.task
def collects(batch: list[str], word: str) -> None:
    assert all(word in each for each in batch)
    called.set()


class Hears(HscService):
    """An HSC that keeps the nonces of the tokens that it gave."""

    nonces: frozenset[str] = frozenset()

    async def next_claims(self, request: h.NextClaimsRequest, *, timeout: float = 70) -> h.NextClaimsReply:
        self.nonces |= {request.nonce}
        return await super().next_claims(request, timeout=timeout)


@contextlib.asynccontextmanager
async def working(world: World) -> AsyncIterator[Hears]:
    """A store consumer, a controller, an HSC and an executor with the call streams of production, at work."""
    store, runtime, timing, lambdas = world.store, world.runtime, Timing(), app.lambdas
    hsc = Hears(store=store, timing=timing, runtime=runtime, settings=HscSettings(deploy_grace=0))
    wiring = Wiring(runtime, timing)
    controller, consumer = wiring.controller(hsc), wiring.consumer(store)
    workers = ThreadAndLoopWorkers(2, 8)
    wired = wiring.executor("executor-2", lambdas, controller=controller, hsc=hsc, workers=workers)
    executor, beats = wired.executor, wired.heartbeats
    register = f.RegisterLambdasRequest(lambdas=[each.spec() for each in lambdas.values()])
    await world.answer("Frontend.RegisterLambdas", register)
    roles = [runtime.spawn(each.run(), name="role") for each in (consumer, hsc, controller, beats)]
    running = runtime.spawn(executor.run(), name="executor")
    try:
        yield hsc
        executor.drain()
        assert await running == 0
    finally:
        await end([running, *roles])
        await controller.drain()


def batch_of(lambda_name: str) -> list[bytes]:
    """The messages of a batch of three items, whose results a callback is given."""
    task = t.TaskSpec(**{"lambda": "marked/collects"}, payload=json.dumps({"word": SECRET}).encode())  # type: ignore[arg-type]
    calls = b.Callback(when=b.Callback.COMPLETION, task=task, gives=b.Callback.RESULTS)
    header = b.BatchHeader(id=lambda_name[7:], spec=b.BatchSpec(**{"lambda": lambda_name}, callbacks=[calls]))  # type: ignore[arg-type]
    items = [b.BatchItem(payload=json.dumps({"word": f"{SECRET} {n}"}).encode()) for n in range(3)]
    messages = [
        b.ScheduleBatchRequest(header=header),
        b.ScheduleBatchRequest(items=b.BatchItems(items=items)),
        b.ScheduleBatchRequest(end=b.BatchEnd(items=3)),
    ]
    return [each.SerializeToString() for each in messages]


async def test_lambdas_that_run_and_callbacks_leave_no_secret_in_a_log(said: Said) -> None:
    """Whatever a lambda is given, returns, says or raises, and whatever is wrong with a callback."""
    called.clear()
    names = sorted(app.lambdas.keys() - {"marked/collects"})
    payloads = [f'{{"word":"{SECRET}"}}', f'{{"word":{SECRET}', f'{{"{SECRET}":1}}']
    async with opened() as world, working(world) as hsc:
        requests: list[f.ScheduleRequest] = []
        for name, payload in product(names, payloads):
            spec: dict[str, Any] = {"lambda": name, "payload": payload.encode()}
            requests.append(schedule(f"w{len(requests)}", **spec))
        made = await world.answer("Frontend.ScheduleMany", f.ScheduleManyRequest(requests=requests))
        ids = [each.reply.id for each in made.results]
        for name in ("marked/gives", "marked/gives_bytes"):  # no callback can be given bytes
            assert (await world.stream(*batch_of(name))).code is OK
        wait = f.WaitTasksRequest(ids=ids, timeout_us=30_000_000, all=True)
        ended = (await world.answer("Frontend.WaitTasks", wait)).tasks
        assert await asyncio.to_thread(called.wait, 30)
        async with asyncio.timeout(30):
            while "callback can't be made" not in said.text:
                await asyncio.sleep(0.01)
    assert len(ended) == len(ids)
    assert sum("[redacted]" in each.error for each in ended) >= 5, "what lambdas raise stands with their tasks"
    assert all("unknown field" in each.error for each in ended if SECRET in each.error), "names are no values"
    assert "draining" in said.text
    assert hsc.nonces
    assert [line for line in said.text.splitlines() if any(each in line for each in (SECRET, *hsc.nonces))] == []


class Refuses:
    """An HSC that refuses everything."""

    def __getattr__(self, name: str) -> Any:
        async def refuse(request: Any, *, timeout: float = 10) -> Any:
            from atf.errors import InvalidArgument

            raise InvalidArgument("no")

        return refuse


async def test_a_dead_executors_tokens_are_in_no_log(said: Said) -> None:
    from atf.config.settings import Timing
    from atf.runtime import SystemRuntime

    refuses: Any = Refuses()
    reports = Reports(hsc=refuses, timing=Timing(), runtime=SystemRuntime())
    claim = ["0-a", 1, NONCE]
    event = {
        "executor": "e",
        "code": 1,
        "held": [claim],
        "started": [["0-b", 1, NONCE]],
        "stopped": [["0-c", 1, NONCE]],
    }
    report_death(parse_death({**event, "timed_out": [["0-d", 1, NONCE, 5, SECRET]]}), [], reports)
    assert await reports.flush(5) == 0
    assert said.text.count("report refused") == 3
    assert SECRET not in said.text


def test_a_guards_line_that_can_not_be_read_is_not_repeated(said: Said) -> None:
    for line in (f'{{"event": "dead", "executor": "e", "held": [["0-a", "{NONCE}", 1]]}}', f'"{NONCE}', f'["{NONCE}"]'):
        assert event_of(line) is None
    assert said.text.count("can't be read") == 3
    assert SECRET not in said.text


FORGED = f"\x1b[2J\nrole=hsc all is well\r\x9b\u202e{SECRET}"


def test_no_field_can_forge_a_line_or_move_the_cursor(said: Said) -> None:
    log = get_logger(duty=FORGED)
    log.info(FORGED, why=FORGED, tasks=3, payload=FORGED, result=b"5ecret")
    try:
        raise ValueError(FORGED.replace("\n", "\\n"))
    except ValueError as error:
        log.warning("said", error=str(error))
        before = said.text
        log.exception("a bug", error=repr(error))
    assert acts(said.text) == []
    assert before.count("\n") == 2
    assert "payload=<hidden>" in said.text or json.loads(before.splitlines()[0])["payload"] == "<hidden>"
