"""`make hosts [HOSTS=1000]`: what very many idle worker hosts cost the store and the HSCs, and what one task does among them.

The store, a frontend, a store consumer and two HSCs are real processes. The hosts are real controllers in a process of their own, each with a
connection of its own to one of the HSCs; their executors run nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import redis.asyncio as aioredis

from atf.bench import proc
from atf.client import AsyncClient
from atf.rpc import frontend_pb2 as f
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub
from atf.runtime import end
from proof.benchmarks.known import SYSTEMS
from proof.benchmarks.ours import Layout, OurRoles
from proof.benchmarks.stores import LoopbackStore
from proof.benchmarks.world import environment
from proof.chaos import frame

from .fleet import LAMBDA, Fleet

_RESULTS: Final = Path(__file__).parents[2] / "proof" / "results" / "hosts"
_EACH_S: Final = 0.01
_SETTLE_S: Final = 15.0
_AFTER_S: Final = 0.3
_APART_S: Final = 1.3
_WITHIN_S: Final = 10.0
_FILES: Final = 16_384
_OF_A_TASK: Final = frozenset({"schedule", "enqueue", "next_claims", "claims_of", "filled_queues", "give_up_asks"})
"""Functions of the store that a task may need until it starts."""
BARS: Final = {
    "store_connections": 40,
    "store_percent": 1.0,
    "hsc_percent": 5.0,
    "calls_until_start": 4,
    "hosts_woken": 1,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make hosts", description="Measures very many idle worker hosts.")
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--executors", type=int, default=4, help="of each host")
    parser.add_argument("--hscs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="for which the idle hosts are watched")
    parser.add_argument("--tasks", type=int, default=20, help="that are scheduled one by one")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, max(_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    return asyncio.run(_run(given))


async def _run(given: argparse.Namespace) -> int:
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="atf-hosts-") as folder:
        store = LoopbackStore(Path(folder) / "store", cluster=False)
        await store.start()
        log = (Path(folder) / "said.log").open("w", encoding="utf-8", buffering=1)
        roles = OurRoles(
            store.url,
            environment(Path(folder)) | SYSTEMS["atf"].env,
            lambda name, line: print(f"{name:<14} | {line}", file=log),
            Layout(hscs=given.hscs),
        )
        try:
            await roles.start(workers=False)
            found = await _measured(given, store.url, roles, say)
        finally:
            await roles.stop()
            await store.stop(0)
            log.close()
    failed = [name for name, bar in BARS.items() if found[name] > bar]
    result = {
        "status": "failed: " + ", ".join(failed) if failed else "ok",
        "hosts": given.hosts,
        "executors": given.executors,
        "hscs": given.hscs,
        "seconds": given.seconds,
        "cpu": proc.cpu_model(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "code": frame.code(),
        "bars": BARS,
        **found,
    }
    given.results.mkdir(parents=True, exist_ok=True)
    path = given.results / f"{datetime.now(UTC):%Y-%m-%d}-hosts-{given.hosts}-{frame.code()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    say(f"{result['status']}: {path}")
    return 1 if failed else 0


async def _measured(given: argparse.Namespace, url: str, roles: OurRoles, say: Callable[[str], None]) -> dict[str, Any]:
    hscs, address = roles.addresses("hsc"), roles.addresses("frontend")[0]
    channel = open_channel(address)
    await FrontendStub(channel).register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=LAMBDA)]))
    fleet = Fleet(lambda: open_channel(",".join(hscs)), hosts=given.hosts, executors=given.executors)
    server = aioredis.from_url(url)
    before = (await server.info("clients"))["connected_clients"]
    try:
        await fleet.start(_EACH_S)
        say(f"{given.hosts} hosts wait for work")
        await asyncio.sleep(_SETTLE_S)
        found = await _idle(given.seconds, roles, server, before)
        say(f"idle: {found}")
        found |= await _lone_tasks(given.tasks, address, url, fleet)
        say(f"a lone task: {found['calls']}, {found['hosts_woken']} hosts woken, {found['start_ms']} ms")
        return found
    finally:
        await fleet.stop()
        await server.aclose()
        await channel.close()


async def _idle(seconds: float, roles: OurRoles, server: Any, before: int) -> dict[str, Any]:
    """What they cost while there is nothing to do."""
    watched = [(await server.info("server"))["process_id"], *roles.pids()["hsc"]]
    used, begun = [proc.cpu_s(each) for each in watched], time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - begun
    percent = [round(100 * (proc.cpu_s(each) - was) / took, 2) for each, was in zip(watched, used, strict=True)]
    return {
        "store_connections": (await server.info("clients"))["connected_clients"] - 1,
        "store_connections_before": before - 1,
        "store_percent": percent[0],
        "hsc_percent": max(percent[1:]),
        "hsc_percent_each": percent[1:],
    }


async def _lone_tasks(tasks: int, address: str, url: str, fleet: Fleet) -> dict[str, Any]:
    """Schedules tasks one by one, and counts what each has others do until it starts."""
    woken, delays, calls, totals = [], [], Counter[str](), []
    watcher = aioredis.from_url(url)
    seen: list[tuple[float, str]] = []
    async with AsyncClient(address) as client, watcher.monitor() as monitor:
        watch = asyncio.ensure_future(_watch(monitor, seen))
        for _ in range(tasks):
            await asyncio.sleep(_APART_S)
            fleet.heard.clear()
            seen.clear()
            asked = time.monotonic()
            handle = await client.schedule(LAMBDA)
            until = time.monotonic() + _WITHIN_S
            while handle.id not in fleet.heard.starts and time.monotonic() < until:
                await asyncio.sleep(0.001)
            started = fleet.heard.starts[handle.id]
            await asyncio.sleep(_AFTER_S)
            mine = Counter(name for at, name in seen if at <= started + 0.005 and name in _OF_A_TASK)
            calls.update(mine)
            totals.append(mine.total())
            woken.append(len(fleet.heard.woken))
            delays.append((started - asked) * 1000)
        await end([watch])
    return {
        "calls_until_start": statistics.median(totals),
        "calls_most": max(totals),
        "calls": {name: round(count / tasks, 2) for name, count in calls.items()},
        "hosts_woken": statistics.median(woken),
        "hosts_woken_most": max(woken),
        "start_ms": {"p50": round(statistics.median(delays), 2), "most": round(max(delays), 2)},
    }


async def _watch(monitor: Any, seen: list[tuple[float, str]]) -> None:
    """Notes the functions that the store is called for."""
    async for command in monitor.listen():
        words = command["command"].split(" ")
        if words[0].upper() == "FCALL":
            seen.append((time.monotonic(), words[1].split("_", 3)[-1]))


if __name__ == "__main__":
    sys.exit(main())
