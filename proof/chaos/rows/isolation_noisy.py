"""Row: one lambda floods the cluster, and another one that shares all roles with it must not notice.

    python -P -m proof.chaos.rows.isolation_noisy --kind busy --tasks 20000 --seconds 8      the same at any size, on the terminal

A trial takes the start delays of the quiet lambda alone first, then while the flood is being scheduled, then beside it when it is due: only
the last is judged. What has ended of the flood is swept meanwhile. Half of its tasks are scheduled ahead of their
instant, half are due when they are stored. When each began is written down by the tasks themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient, TaskInfo
from atf.embedded.child import Child
from atf.rpc import frontend_pb2 as f
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub
from atf.sdk.schedulable import named
from atf.verify.outcome import percentile
from atf.verify.record import DIRECTORY, VerifyRecord
from proof.chaos.bench import environment
from proof.chaos.frame import Progress, Row, Trial

KINDS: Final = ("busy", "dead", "failing")
"""What the flood's executors do: run it as fast as they can; nothing, since they are dead; fail every task."""
TASKS: Final = 200_000
RATE: Final = 50.0
"""Tasks a second of the quiet lambda."""
SECONDS: Final = 15.0
"""For so long each, alone and beside the flood, which fast machines have run after some 20 s."""
AHEAD_S: Final = 0.5
FACTOR: Final = 1.2
SLACK_S: Final = 0.008
_WARM_UP_S: Final = 30.0
_FLOOD_S: Final = 600.0
_LEAD_S: Final = 2.0
_END_S: Final = 30.0


class _Quiet:
    """The quiet lambda's load."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.due: dict[str, int] = {}
        """By key, the instant (µs, wall clock) at which the task was due."""
        self.ids: dict[str, str] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._number = 0

    async def run(self, seconds: float) -> list[str]:
        """Schedules at the rate for so long; the keys."""
        began, keys = time.monotonic(), list[str]()
        while (passed := time.monotonic() - began) < seconds:
            if len(keys) > passed * RATE:
                await asyncio.sleep(len(keys) / RATE - passed)
                continue
            self._number += 1
            key = f"q{self._number}"
            keys.append(key)
            call = asyncio.ensure_future(self._schedule(key, ahead=self._number % 2 == 0))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        if self._calls:
            await asyncio.wait(self._calls)
        return keys

    async def _schedule(self, key: str, *, ahead: bool) -> None:
        options: Any = {"key": key}
        if ahead:
            at = datetime.now(UTC) + timedelta(seconds=AHEAD_S)
            self.due[key] = round(at.timestamp() * 1e6)
            options["at"] = at
        handle = await self._client.schedule(named("quiet/work", {}, options))
        self.ids[key] = handle.id
        if not ahead:
            self.due[key] = round((await self._client.get(handle.id)).scheduled_at.timestamp() * 1e6)  # type: ignore[union-attr]


async def trial(kind: str, tasks: int, seconds: float, say: Any) -> Trial:
    """One trial of a kind."""
    folder = Path(tempfile.mkdtemp(prefix="atf-noisy-"))
    (folder / "record").mkdir()
    env = environment(folder, **{DIRECTORY: str(folder / "record")})
    apps = ["proof.chaos.neighbours:quiet"] + ["proof.chaos.neighbours:noisy"] * (kind != "dead")
    settings = ClusterSettings(data_dir=str(folder / "store"), free_ports=True, executors=2)
    with (folder / "roles.log").open("w", encoding="utf-8", buffering=1) as log:
        cluster = Cluster(settings, apps, env=env, say=lambda name, line: print(f"{name:<14} | {line}", file=log))
        try:
            await cluster.start()
            others = await _others(cluster, env) if kind == "dead" else None
            found = await _measure(cluster, VerifyRecord(folder / "record"), env, kind, tasks, seconds, say, others)
        except BaseException:
            say(f"what the roles said is in {folder}/roles.log")
            raise
        finally:
            await cluster.stop(10.0)
    shutil.rmtree(folder, ignore_errors=True)
    return found


async def _others(cluster: Cluster, env: dict[str, str]) -> Child:
    """A controller with executors of the flood's own, on this host as well, to be killed."""
    words = ["controller", "--listen", "127.0.0.1:0", "--hsc", cluster.addresses["hsc"], "--executors", "1"]
    more = ["--frontend", cluster.frontend_address]
    up = asyncio.Event()
    child = Child(
        [sys.executable, "-P", "-m", "atf.cli", *words, *more, "proof.chaos.neighbours:noisy"],
        env=env,
        on_line=lambda _: up.set(),
    )
    await asyncio.wait_for(up.wait(), _WARM_UP_S)
    return child


async def _measure(
    cluster: Cluster,
    record: VerifyRecord,
    env: dict[str, str],
    kind: str,
    tasks: int,
    seconds: float,
    say: Any,
    others: Child | None,
) -> Trial:
    address = cluster.frontend_address
    async with AsyncClient(address, timeout=60.0) as client:
        quiet = _Quiet(client)
        await _warm_up(quiet, record)
        alone = await quiet.run(seconds)
        due_us = time.time_ns() // 1000 + round((_LEAD_S + tasks / 8_000) * 1e6)
        words = [address, str(tasks), str(due_us), str(int(kind == "failing"))]
        if kind == "dead":
            while "noisy/flood" not in {each.name for each in await client.lambdas()}:
                await asyncio.sleep(0.1)
        flooding = Child([sys.executable, "-P", "-m", "proof.chaos.neighbours", *words], env=env, on_line=say)
        beside_call = asyncio.ensure_future(quiet.run(_FLOOD_S))
        await asyncio.wait_for(flooding.wait(), _FLOOD_S)
        await asyncio.sleep(max(0.0, due_us / 1e6 - time.time()))
        if others is not None:
            await asyncio.sleep(1.0)
            others.kill_group()
        beside_call.cancel()
        with suppress(asyncio.CancelledError):
            await beside_call
        while_flooding = [key for key in quiet.due if key not in set(alone)]
        beside = await quiet.run(seconds)
        left = await _left(address)
        await _settled(record, quiet.due)
        moves = {key: await client.get(quiet.ids[key]) for key in quiet.due}
    begun: dict[str, int] = {}
    for run in sorted(record.begun, key=lambda run: run.at_us):
        begun.setdefault(run.task_id, run.store_us)
    delays = {key: (begun[key] - due) / 1e6 for key, due in quiet.due.items() if key in begun}

    def p(keys: Sequence[str], share: float) -> float:
        return round(percentile(sorted(delays[key] for key in keys if key in delays), round(share * 100)), 4)

    phases = {"alone": alone, "scheduling": while_flooding, "beside": beside}
    stages = {name: _stages(keys, quiet.due, begun, moves) for name, keys in phases.items()}
    for name, parts in stages.items():
        said = (f"{part} {p50 * 1e3:.1f} / {p95 * 1e3:.1f} ms" for part, (p50, p95) in parts.items())
        say(f"{kind}, {name}: " + ", ".join(said))
    missing = [key for key in quiet.due if key not in begun]
    bar = max(FACTOR * p(alone, 0.95), p(alone, 0.95) + SLACK_S)
    late = []
    if p(beside, 0.95) > bar:
        late.append(f"{kind}: p95 beside the flood {p(beside, 0.95) * 1e3:.1f} ms, alone {p(alone, 0.95) * 1e3:.1f} ms")
    if left < 1:
        late.append(f"{kind}: the flood was over before the measurement was")
    figures = {
        f"{name}_{kind}_p{round(share * 100)}_s": p(keys, share)
        for name, keys in phases.items()
        for share in (0.5, 0.95, 0.99)
    }
    for name, parts in stages.items():
        for part, (p50, p95) in parts.items():
            figures |= {f"{name}_{kind}_{part}_p50_s": round(p50, 4), f"{name}_{kind}_{part}_p95_s": round(p95, 4)}
    return {
        "failures": [f"{kind}: {len(missing)} tasks of the quiet lambda never began"] if missing else [],
        "late": late,
        f"left_{kind}": left,
        **figures,
    }


def _stages(
    keys: Sequence[str], due: Mapping[str, int], begun: Mapping[str, int], moves: Mapping[str, TaskInfo | None]
) -> dict[str, tuple[float, float]]:
    """The median and the p95 of each part of the start delay, in seconds: where it waits, if it does."""
    parts: dict[str, list[float]] = {"until_pushed": [], "until_claimed": [], "until_begun": []}
    for key in keys:
        info = moves.get(key)
        if info is None or key not in begun or info.enqueued_at is None or info.claimed_at is None:
            continue
        pushed, claimed = info.enqueued_at.timestamp() * 1e6, info.claimed_at.timestamp() * 1e6
        for name, us in zip(parts, (pushed - due[key], claimed - pushed, begun[key] - claimed), strict=True):
            parts[name].append(us / 1e6)
    return {name: (percentile(sorted(each), 50), percentile(sorted(each), 95)) for name, each in parts.items() if each}


async def _warm_up(quiet: _Quiet, record: VerifyRecord) -> None:
    until = time.monotonic() + _WARM_UP_S
    while time.monotonic() < until:
        await quiet.run(1.0)
        record.poll()
        if len(record.processes) >= 2:
            break
    await quiet.run(2.0)
    await asyncio.sleep(1.0)
    quiet.due.clear()


async def _left(address: str) -> int:
    """Tasks of the flood that have not ended."""
    channel = open_channel(address)
    try:
        reply = await FrontendStub(channel).list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": "noisy/flood"}))
    finally:
        await channel.close()
    counts = reply.lambdas[0].counts
    return sum(counts[each] for each in ("NEW", "ENQUEUED", "CLAIMED", "PROCESSING", "RETRIABLE_FAILURE"))


async def _settled(record: VerifyRecord, due: dict[str, int]) -> None:
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        record.poll()
        if not due.keys() - {run.task_id for run in record.begun}:
            return
        await asyncio.sleep(0.2)


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    return [
        await trial(KINDS[number % len(KINDS)], TASKS, SECONDS, progress.say) async for number in progress.trials(n)
    ]


ROWS: Final = [
    Row(
        name="noisy-neighbour",
        what=f"{TASKS} due tasks of one lambda, which are run, or fail, or whose executors are dead; another lambda at {RATE:g}/s",
        bar=(
            f"the other one's p95 start delay ≤ {FACTOR:g} × what it is alone, or + {SLACK_S * 1e3:g} ms, while they are due; while they are being"
            " scheduled it is measured and not judged"
        ),
        full=9,
        batch=3,
        run=_run,
    )
]


def _main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--kind", choices=KINDS, default="busy")
    words.add_argument("--tasks", type=int, default=20_000)
    words.add_argument("--seconds", type=float, default=8.0)
    asked = words.parse_args()
    found = asyncio.run(trial(asked.kind, asked.tasks, asked.seconds, lambda line: print(line, file=sys.stderr)))
    for name, value in found.items():
        print(f"{name:<32} {value}")


if __name__ == "__main__":
    _main()
