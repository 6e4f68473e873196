"""The questions of atf bench, one method each, as a user of the SDK would ask them."""

from __future__ import annotations

import asyncio
import datetime as dt
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from atf.cli.local.cluster import Cluster
from atf.client import AsyncClient, Client, Handle, TaskInfo
from atf.runtime import SystemRuntime
from atf.task import Status
from atf.verify.outcome import percentile

from . import pending, proc
from .lambdas import LATER
from .store import TaskStore
from .tasks import KINDS, NoopTasks

CALLERS: Final = 64
LEAD_S: Final = 5.0
"""Seconds before the instant at which a burst is due."""
AHEAD_S: Final = (1.0, 10.0)
"""Seconds ahead that a steady stream is scheduled: at least and at most, each as likely as any other."""
TURNS: Final = 2
"""In which each kind of lambda has its part of the tasks, one after the other: a machine's speed changes."""
IDLE_S: Final = 5.0
CALL_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class BenchPlan:
    """What `atf bench` is to do.

    Attributes:
        tasks: of a measurement of throughput.
        rounds: of that measurement; the median counts.
        singles: of single calls.
        burst: tasks due at one instant.
        rate: tasks a second that are scheduled ahead.
        seconds: for so long.
        executors: executor processes.
        pending: tasks that wait meanwhile.
        redis_url: the store; "": an embedded one, in a temporary directory.
        settings: more of ClusterSettings by name.
    """

    tasks: int = 20_000
    rounds: int = 3
    singles: int = 1_000
    burst: int = 1_500
    rate: float = 500
    seconds: float = 10
    executors: int = 2
    pending: int = 0
    redis_url: str = ""
    settings: Mapping[str, Any]


class Measurement(NamedTuple):
    """One measurement."""

    name: str
    what: str
    figures: dict[str, float]


class Measurements:
    """The measurements.

    Args:
        plan: how much of each.
        namespace: of the lambdas.
        cluster: the roles.
        client: of their frontend.
        store: theirs.
    """

    def __init__(
        self, plan: BenchPlan, namespace: str, cluster: Cluster, client: AsyncClient, store: TaskStore
    ) -> None:
        self._plan, self._cluster, self.client, self._store = plan, cluster, client, store
        self._pending = 0
        """Of others, when it began, and of ours that are to wait meanwhile."""
        self.tasks = NoopTasks(namespace, client)
        self._random = SystemRuntime().random

    async def before(self) -> Measurement:
        """What the store holds already, of all lambdas: the figures are those of a store with so much in it."""
        lambdas = await self.client.lambdas()
        counts = {status: sum(each.counts[status] for each in lambdas) for status in Status}
        self._pending = sum(count for status, count in counts.items() if not status.finished)
        figures = {"pending": float(self._pending), "finished": float(sum(counts.values()) - self._pending)}
        return Measurement("before", "in the store before, tasks", figures)

    async def pending(self) -> Measurement:
        """Schedules what is to wait while everything else is measured."""
        before, began = await self._store.used_bytes(), time.monotonic()
        await self.tasks.schedule(self._plan.pending, [LATER], at=dt.datetime.now(dt.UTC) + pending.AHEAD)
        figures = {"scheduled_per_s": round(self._plan.pending / (time.monotonic() - began), 1)}
        used = await self._store.used_bytes()
        if before is not None and used is not None:
            figures["bytes_per_task"] = round((used - before) / self._plan.pending, 1)
        self._pending += self._plan.pending
        return Measurement("pending", f"{self._plan.pending:,} tasks due in a year, which wait from now on", figures)

    async def idle(self) -> Measurement:
        """CPU while there is nothing to do."""
        before = await self._cpu()
        await asyncio.sleep(IDLE_S)
        used = proc.less(await self._cpu(), before)
        figures = {role: round(100 * seconds / IDLE_S, 2) for role, seconds in used.items() if role != "client"}
        return Measurement("idle", "idle, % of a core", figures)

    async def end_to_end(self) -> Measurement:
        """No-op tasks, from the first call until nothing is left to do."""
        rounds = [await self.through(self._plan.tasks) for _ in range(self._plan.rounds)]
        figures = {name: round(statistics.median(each[name] for each in rounds), 1) for name in rounds[0]}
        figures["ran_again"] = sum(each["ran_again"] for each in rounds)
        beside = f" beside {self._pending:,} pending tasks" if self._pending else ""
        return Measurement("end_to_end", f"end to end{beside}, tasks a second; CPU per task, µs", figures)

    async def kinds(self) -> Measurement:
        """The same for `def` alone and for `async def` alone: CPU of the executors."""
        tasks = max(1, self._plan.tasks // (TURNS * len(KINDS)))
        turns = [{name: await self.through(tasks, [name]) for name in KINDS} for _ in range(TURNS)]
        figures = {
            kind.replace(" ", "_"): round(statistics.mean(each[name]["cpu_us_executors"] for each in turns), 1)
            for name, kind in KINDS.items()
        }
        return Measurement("kinds", "the executors' CPU per task, µs", figures)

    async def memory(self) -> Measurement:
        """What each role keeps after it has done all that."""
        return Measurement("memory", "resident memory after that, MiB", proc.rss_by_role(self._pids()))

    async def drain(self) -> Measurement:
        """Tasks that all wait for their paused lambda; from its resumption on. What one of them takes in the store meanwhile."""
        before = await self._store.used_bytes()
        async with self.tasks.paused():
            handles = await self.tasks.schedule(self._plan.tasks)
            used = await self._store.used_bytes()
            began = await self._store.now_s()
        await self.tasks.drained()
        ended = await self.tasks.ends(handles)
        figures = {"per_s": round(self._plan.tasks / (ended.last_s - began), 1)}
        if before is not None and used is not None:
            figures["bytes_per_waiting_task"] = round((used - before) / self._plan.tasks, 1)
        figures["ran_again"] = ended.ran_again
        return Measurement("drain", f"{self._plan.tasks:,} tasks that wait already, tasks a second", figures)

    async def one_caller(self) -> Measurement:
        """A blocking client, one task a call; nothing runs meanwhile."""

        def call() -> list[float]:
            with Client(self._cluster.frontend_address, timeout=CALL_S) as client:
                took = []
                for number in range(-16, self._plan.singles):
                    began = time.monotonic()
                    client.schedule(self.tasks.task(number))
                    took.append(time.monotonic() - began)
                return took[16:]

        async with self.tasks.paused():
            took = await asyncio.to_thread(call)
        await self.tasks.drained()
        return Measurement(
            "one_caller",
            "one caller, calls a second; ms per call",
            {"per_s": round(len(took) / sum(took), 1), **_ms(took)},
        )

    async def callers(self) -> Measurement:
        """64 callers in one client, one task a call; nothing runs meanwhile."""
        left, took = iter(range(10 * self._plan.singles)), list[float]()

        async def caller() -> None:
            for number in left:
                began = time.monotonic()
                await self.client.schedule(self.tasks.task(number))
                took.append(time.monotonic() - began)

        async with self.tasks.paused():
            began = time.monotonic()
            await asyncio.gather(*(caller() for _ in range(CALLERS)))
            per_s = round(len(took) / (time.monotonic() - began), 1)
        await self.tasks.drained()
        what = f"{CALLERS} callers in one client, calls a second; ms per call"
        return Measurement("callers", what, {"per_s": per_s, **_ms(took)})

    async def due_at_once(self) -> Measurement:
        """Tasks that are all due at one instant."""
        due = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=LEAD_S)
        infos = await self.tasks.finished([self.tasks.task(number, at=due) for number in range(self._plan.burst)])
        return Measurement("due_at_once", f"{self._plan.burst:,} tasks due at one instant, ms late", _late(infos))

    async def ahead(self) -> Measurement:
        """A steady stream, one task a call, each due some seconds after it."""
        calls: list[asyncio.Task[Handle[Any]]] = []
        count, before, began = int(self._plan.rate * self._plan.seconds), await self._cpu(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                await asyncio.sleep(max(0.0, began + number / self._plan.rate - time.monotonic()))
                due = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=self._random.uniform(*AHEAD_S))
                calls.append(group.create_task(self.client.schedule(self.tasks.task(number, at=due))))
        await asyncio.sleep(AHEAD_S[1])  # until the last one is due: to look before would be in the figures
        await self.tasks.drained()
        used = _per_task_us(proc.less(await self._cpu(), before), count)
        infos = await self.tasks.ended([each.result() for each in calls])
        least, most = AHEAD_S
        what = f"{self._plan.rate:g} tasks a second, {least:g} to {most:g} s ahead, ms late; CPU per task, µs"
        return Measurement("ahead", what, {**_late(infos), **{name: round(us, 1) for name, us in used.items()}})

    async def through(self, tasks: int, names: Sequence[str] = tuple(KINDS)) -> dict[str, float]:
        before, began_s, began = await self._cpu(), await self._store.now_s(), time.monotonic()
        handles = await self.tasks.schedule(tasks, names)
        accepted = time.monotonic() - began
        await self.tasks.drained()
        used = proc.less(await self._cpu(), before)
        ended = await self.tasks.ends(handles)
        return {
            "per_s": tasks / (ended.last_s - began_s),
            "scheduled_per_s": tasks / accepted,
            **_per_task_us(used, tasks),
            "ran_again": ended.ran_again,
        }

    async def _cpu(self) -> dict[str, float]:
        pids = self._pids()
        used = {"client": time.process_time(), **proc.cpu_by_role(pids)}
        if "store" not in pids and (seconds := await self._store.cpu_s()) is not None:
            used["store"] = seconds
        return used

    def _pids(self) -> dict[str, list[int]]:
        roles = {name: [pid] for name in self._cluster.names if (pid := self._cluster.pid(name))}
        return {**roles, "executors": [pid for each in self._cluster.executors() for pid in each]}


def _per_task_us(used: Mapping[str, float], tasks: int) -> dict[str, float]:
    """µs of CPU per task: of all processes together, and of each role's."""
    by_role = {f"cpu_us_{role}": seconds * 1e6 / tasks for role, seconds in used.items()}
    return {"cpu_us": sum(by_role.values()), **by_role}


def _ms(took: Sequence[float]) -> dict[str, float]:
    return {f"p{each}_ms": round(1e3 * percentile(took, each), 2) for each in (50, 99)}


def _late(infos: Sequence[TaskInfo]) -> dict[str, float]:
    """How late tasks began by the store's clock; those that began before their instant are counted."""
    starts = [(each.scheduled_at, each.ended_runs[0].started_at) for each in infos if each.ended_runs]
    late = [(started - due).total_seconds() for due, started in starts if due is not None and started is not None]
    return {**_ms(late), "max_ms": round(1e3 * max(late), 2), "early": sum(each < 0 for each in late)}
