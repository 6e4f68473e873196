"""Lambdas that try to get at what is not theirs: the worker's token, other tasks, and what their neighbours run. They answer what came of it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import atf
from atf.errors import AtfError
from atf.executor.credential import OnThisHost
from atf.rpc import controller_pb2 as c, hsc_pb2 as h, task_pb2 as t
from atf.rpc.caller_security import CallerSecurity, Security, own
from atf.rpc.channel import open_channel
from atf.rpc.lambda_sets import LambdaSet
from atf.rpc.stubs import ControllerStub, HSCStub
from atf.task import US

app = atf.App("photos")
OTHERS = LambdaSet({"mail/send": ""})
WAIT_US = 30 * US


@app.task
def hold(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@app.task
def read_token() -> dict[str, str]:
    """Looks into this process, its guard, the controller and all other workers."""
    guard = os.getppid()
    controller = _parent(guard)
    workers = [pid for pid in _processes("atf.executor.worker_main") if pid != os.getpid()]
    others = [pid for pid in workers if _parent(_parent(pid)) == controller]
    found = {"own environ": " ".join(os.environ.values()), "own arguments": " ".join(sys.orig_argv)}
    forks = [pid for pid in _processes("atf.executor.isolation.fork_server") if _parent(pid) in others]
    _wait_until_hidden([*others, *forks])
    found["neighbours' fork servers"] = str(len(forks))
    kinds = (("guard", [guard]), ("controller", [controller]), ("neighbour", others), ("fork server", forks))
    for name, pids in kinds:
        for pid in pids:
            found[f"{name} cmdline"] = Path(f"/proc/{pid}/cmdline").read_text()
            for file in ("environ", "mem", "fd/0"):
                found[f"{name} {file}"] = _look(Path(f"/proc/{pid}/{file}"))
    return found


@app.task
def claim() -> list[str]:
    """Asks the HSC for tasks, by what this process shows, and by nothing."""
    return [_called(security, _ask) for security in (own(), Security())]


@app.task
def end_neighbour(task_id: str, executor_id: str) -> list[str]:
    """Ends a task of another executor: in that one's name, in one's own, and by nothing."""

    def end(name: str) -> Callable[[HSCStub], Awaitable[object]]:
        guessed = t.ClaimRef(task_id=task_id, token=t.Token(counter=1, nonce="0" * 16))
        result = h.Result(claim=guessed, outcome=t.SUCCEEDED)
        return lambda hsc: hsc.set_results(h.SetResultsRequest(executor_id=name, results=[result]))

    mine = next(each for each in sys.orig_argv if each.count("-") >= 2 and each.rsplit("-", 2)[1] == str(os.getppid()))
    return [
        _called(own(), end(executor_id)),
        _called(own(), end(mine)),
        _called(Security(), end(executor_id)),
    ]


@app.task
def schedule_more() -> str:
    """Uses the default client of this process."""
    return hold.schedule(0).id


@app.task(isolate=True)
def schedule_from_apart() -> str:
    """The same from a process of its own."""
    return hold.schedule(0).id


@app.task(isolate=True)
def work_from_apart() -> list[str]:
    """Asks the controller for tasks in its executor's name, enters there, and renews leases, all by what an isolated run is given."""
    shown = (own().metadata() or (("", ""),))[0][1].removeprefix("Bearer ")
    mine = shown.split("_", 3)[3][: -len("_") - 43]
    work = c.NextWorkRequest(executor_id=mine, nonce="mine", max_tasks=1, lambdas=["photos/hold"], signatures=["made"])
    enter = c.EnterRequest(executor_id=mine, secret=shown)

    def ask(channel: Any) -> Awaitable[object]:
        return ControllerStub(channel).next_work(work)

    def come_in(channel: Any) -> Awaitable[object]:
        return ControllerStub(channel).enter(enter)

    here = OnThisHost(own()), os.environ["ATF_CONTROLLER"]
    beat = h.HeartbeatRequest(executor_id=mine)
    return [_said(*here, ask), _said(*here, come_in), _called(own(), lambda hsc: hsc.heartbeat(beat))]


def _ask(hsc: HSCStub) -> Awaitable[object]:
    request = h.NextClaimsRequest(executor_id="mine", nonce="mine", max_tasks=1, lambda_set=OTHERS.digest)
    request.lambdas.extend(OTHERS.lambdas)
    return hsc.next_claims(request)


def _called(security: CallerSecurity, call: Callable[[HSCStub], Awaitable[object]]) -> str:
    return _said(security, os.environ["ATF_HSC"], lambda channel: call(HSCStub(channel)))


def _said(security: CallerSecurity, address: str, call: Callable[[Any], Awaitable[object]]) -> str:
    async def play() -> object:
        channel = open_channel(address, security=security)
        try:
            return await call(channel)
        finally:
            await channel.close()

    try:
        return str(asyncio.run(play())).strip()
    except AtfError as error:
        return f"{type(error).__name__}: {error}"


def _look(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(1 << 16).decode("utf-8", "replace") if path.name == "environ" else "opened"
    except OSError as error:
        return type(error).__name__


def _wait_until_hidden(pids: list[int]) -> None:
    """At most 10 s: processes hide while they start."""
    until = time.monotonic() + 10
    while any(_look(Path(f"/proc/{pid}/mem")) == "opened" for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)


def _parent(pid: int) -> int:
    """0: it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _processes(word: str) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if word in (each / "cmdline").read_text():
                found.append(int(each.name))
        except OSError:
            continue
    return found
