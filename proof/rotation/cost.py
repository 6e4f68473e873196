"""`make auth-cost`: what tokens and TLS cost a lone call, and tasks end to end: off, a token, and a token with certificates of both sides, in turns.

Each level has a store, a server and a worker of its own, which idle while another level has its turn. A level is compared with `off` of the same
round, and the median of the rounds counts: what else the machine does changes slowly. CPU says the same with less noise. The lone call is
GetCaller, which asks no store: beside any other one the same is dearer by a smaller part.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from atf import AsyncClient
from atf.auth import secrets
from atf.auth.dev_certificates import DevAuthority
from atf.auth.grants import Verb
from atf.bench import proc
from atf.rpc import frontend_pb2 as f
from atf.rpc.caller_security import SecurityOptions, of_client
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub
from atf.sdk.schedulable import named
from proof.benchmarks.stores import LoopbackStore
from proof.chaos import frame

from .processes import ROOT, children, running
from .secured import put, put_pair, put_token

LONE_BAR_MS: Final = 0.15
END_TO_END_BAR: Final = 0.05
LEVELS: Final = ("off", "token", "token and mtls")
_RESULTS: Final = ROOT / "proof" / "results" / "rotation"
_BATCH: Final = 100
_AT_ONCE: Final = 4
_TASK: Final = "photos/echo"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make auth-cost", description="Measures what tokens and TLS cost.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=300, help="lone calls of a turn")
    parser.add_argument("--tasks", type=int, default=2_000, help="of a turn")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    given = parser.parse_args()
    turns = asyncio.run(_run(given))
    result = _judged(turns) | {
        "rounds": given.rounds,
        "calls": given.calls,
        "tasks": given.tasks,
        "code": frame.code(),
        "cpu": proc.cpu_model(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    given.results.mkdir(parents=True, exist_ok=True)
    path = given.results / f"{datetime.now(UTC):%Y-%m-%d}-auth-cost-{frame.code()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(path.read_text(), path)
    return 1 if result["status"] != "ok" else 0


@dataclass(frozen=True)
class Turn:
    """What a level took once.

    Attributes:
        lone_ms: the fastest quarter of calls one after the other; the rest is what else the machine did.
        lone_cpu_ms: of all its processes and the caller, a call.
        tasks_per_s: from the first that is scheduled to the last that has ended.
        task_cpu_ms: of all its processes and the caller, a task.
    """

    lone_ms: float
    lone_cpu_ms: float
    tasks_per_s: float
    task_cpu_ms: float


class GuardedServer:
    """A server with a worker, and a client of them."""

    def __init__(self, frontend: FrontendStub, client: AsyncClient, processes: Sequence[int]) -> None:
        self._frontend, self._client, self._processes = frontend, client, processes

    async def turn(self, calls: int, tasks: int) -> Turn:
        before = self._cpu_s()
        lone_ms = await self.lone(calls)
        between = self._cpu_s()
        per_s = await self.through(tasks)
        after = self._cpu_s()
        return Turn(lone_ms, (between - before) * 1e3 / calls, per_s, (after - between) * 1e3 / tasks)

    async def lone(self, calls: int) -> float:
        """In ms."""
        took, request = [], f.GetCallerRequest()
        for _ in range(calls):
            began = time.perf_counter()
            await self._frontend.get_caller(request)
            took.append((time.perf_counter() - began) * 1e3)
        return statistics.quantiles(took, n=4)[0]

    async def through(self, tasks: int) -> float:
        """Tasks a second."""
        began, batches = time.perf_counter(), iter(range(0, tasks, _BATCH))

        async def send() -> None:
            for start in batches:
                some = [named(_TASK, {}, {}) for _ in range(min(_BATCH, tasks - start))]
                await self._client.wait(await self._client.schedule_many(some), timeout=120)

        await asyncio.gather(*(send() for _ in range(_AT_ONCE)))
        return tasks / (time.perf_counter() - began)

    def _cpu_s(self) -> float:
        return time.process_time() + sum(map(proc.cpu_s, self._processes))


async def _run(given: argparse.Namespace) -> list[dict[str, Turn]]:
    with tempfile.TemporaryDirectory(prefix="atf-auth-cost-") as folder:
        async with contextlib.AsyncExitStack() as open_:
            levels = {
                name: await open_.enter_async_context(_level(name, Path(folder) / name.replace(" ", "-")))
                for name in LEVELS
            }
            for level in levels.values():
                await level.turn(given.calls, given.tasks)
            turns = []
            for number in range(given.rounds):
                first = number % len(LEVELS)
                order = (*LEVELS[first:], *LEVELS[:first])
                turns.append({name: await levels[name].turn(given.calls, given.tasks) for name in order})
            return turns


@contextlib.asynccontextmanager
async def _level(name: str, folder: Path) -> AsyncIterator[GuardedServer]:
    server, shown = _security(name, folder)
    store = LoopbackStore(folder / "store", cluster=False)
    await store.start()
    token = shown.get("token") or ""
    if token:
        await put_token(store.url, token, *(set(Verb) - {Verb.ADMIN}))
    try:
        listen = ["--listen", "127.0.0.1:0", "--metrics-listen", "none"]
        store_words = ["--redis-url", store.url, "--partitions", "1", "--ui-listen", "none"]
        files = [(option, str(path)) for option, path in shown.items() if option != "token"]
        flags = [word for option, path in files for word in (f"--{option.replace('_', '-')}", path)]
        worker = ["worker", "proof.rotation.echo:app", "--executors", "1", *flags]
        env = {"ATF_TOKEN": token} if token else {}
        async with (
            running("server", *listen, *store_words, *server) as served,
            running(*worker, "--server", served["address"], *listen, env=env) as work,
            AsyncClient(served["address"], **shown) as client,
        ):
            channel = open_channel(served["address"], security=of_client(**shown))
            yield GuardedServer(FrontendStub(channel), client, [served["pid"], *store.pids, *children(work["pid"])])
            await channel.close()
    finally:
        await store.stop(0)


def _security(name: str, folder: Path) -> tuple[list[str], SecurityOptions]:
    """Flags of the server, and options of whoever calls it."""
    folder.mkdir()
    if name == "off":
        return [], {}
    token = secrets.new_token(secrets.new_id(os.urandom), os.urandom)
    if name == "token":
        return ["--auth", "token"], {"token": token}
    authority = DevAuthority(datetime.now(UTC))
    put(folder / "ca.pem", authority.pair.certificate)
    put_pair(folder, "server", authority.server())
    put_pair(folder, "client", authority.client())
    server = ["--auth", "mtls", "--tls-cert", f"{folder}/server.pem", "--tls-key", f"{folder}/server-key.pem"]
    shown = SecurityOptions(
        token=token,
        tls_ca=f"{folder}/ca.pem",
        tls_cert=f"{folder}/client.pem",
        tls_key=f"{folder}/client-key.pem",
    )
    return [*server, "--tls-client-ca", f"{folder}/ca.pem"], shown


def _judged(turns: Sequence[Mapping[str, Turn]]) -> dict[str, Any]:
    levels = {}
    for name in LEVELS:
        here, off = [each[name] for each in turns], [each["off"] for each in turns]
        levels[name] = {
            "lone_ms": _median([each.lone_ms for each in here]),
            "lone_more_ms": _median([each.lone_ms - less.lone_ms for each, less in zip(here, off, strict=True)]),
            "lone_cpu_more_ms": _median(
                [each.lone_cpu_ms - less.lone_cpu_ms for each, less in zip(here, off, strict=True)]
            ),
            "tasks_per_s": _median([each.tasks_per_s for each in here]),
            "slower": _median([1 - each.tasks_per_s / less.tasks_per_s for each, less in zip(here, off, strict=True)]),
            "task_cpu_more": _median(
                [each.task_cpu_ms / less.task_cpu_ms - 1 for each, less in zip(here, off, strict=True)]
            ),
        }
    dear = [
        f"{name}: {what}"
        for name, found in levels.items()
        for what, bar in (("lone_more_ms", LONE_BAR_MS), ("slower", END_TO_END_BAR))
        if found[what] > bar
    ]
    bars = {"lone_more_ms": LONE_BAR_MS, "slower": END_TO_END_BAR}
    return {"status": f"too dear: {', '.join(dear)}" if dear else "ok", "bars": bars, "levels": levels}


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 4)


if __name__ == "__main__":
    sys.exit(main())
