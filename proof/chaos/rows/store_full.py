"""Row: the store fills up, stays full for longer than a lease while tasks run, and drains by itself.

Tasks that are due later fill it, until Schedule answers RESOURCE_EXHAUSTED. Some of them become due while it is full, and must run all
the same; then all do. Their records go soon after they have finished, which makes room: calls that were refused, and are
repeated, come through. Long tasks run all the time. A job ticks, and tasks ask first_time, which a full store refuses, too: see wanting.py. What became of the tasks is told by their own record, since the store forgets.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from atf.client import AsyncClient
from atf.errors import AtfError, ResourceExhausted
from atf.sdk.schedulable import named
from atf.verify.bench import LoadedCluster
from atf.verify.events import Accepted, Called, Event, Found, Gone
from atf.verify.history import check
from atf.verify.load import Load, PlannedTask, Stream
from atf.verify.record import events, now_us, wall_us
from proof.chaos import ticks
from proof.chaos.bench import bench
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.wanting import FIRSTS, Wanting

MAXMEMORY_MIB: Final = 16
RETENTION_S: Final = 1.0
FILL_S: Final = 60.0
"""Seconds that filling the store may take."""
LEASES: Final = 1.5
"""How long the store is full at least, in leases."""
LONG_TASKS, EARLY_TASKS, AFTER_TASKS = 20, 200, 200
CALL_BAR_S: Final = 2.0
"""Seconds that any other call may take while the store is full."""
DRAIN_S: Final = 300.0
EXHAUSTED: Final = "ResourceExhausted"
_BATCH, _AT_ONCE = 256, 4
_BRIEF_S: Final = 0.005
RATE: Final = 500
"""Calls of Schedule a second while the store is full, of a task each, from somebody who does not know."""
_BEAT_S: Final = 0.02
"""Seconds between two looks at how many calls are to be made by now."""


class Once:
    """Calls of Schedule of a task each, none of which is repeated; to the judge it is as a Stream.

    Args:
        client: of the frontend.
        namespace: of the lambdas.
        prefix: of the tasks' keys.

    Attributes:
        called: keys of all tasks, in their order.
        accepted: the stored ids by key.
        turned_away: keys of those that were refused since the store was full.
        refused: calls that failed, by kind.
        events: for the judge.
        waiting: calls that will be repeated: none.
        failures: calls that failed otherwise.
        late: calls that took too long.
    """

    waiting: Final = 0

    def __init__(self, client: AsyncClient, namespace: str, prefix: str) -> None:
        self.called: list[str] = []
        self.accepted: dict[str, str] = {}
        self.turned_away: set[str] = set()
        self.refused: Counter[str] = Counter()
        self.events: list[Event] = []
        self.failures: list[str] = []
        self.late: list[str] = []
        self._client, self._name, self._prefix = client, f"{namespace}/work_async", prefix

    async def call(self) -> None:
        """Schedules one more, due now."""
        key = f"{self._prefix}{len(self.called)}"
        self.called.append(key)
        wall, began = wall_us(), now_us()
        self.events.append(Called(began, key))
        try:
            handle = await self._client.schedule(
                named(self._name, {"seconds": _BRIEF_S}, {"key": key, "retention": RETENTION_S})
            )
        except ResourceExhausted:
            self.refused[EXHAUSTED] += 1
            self.turned_away.add(key)
        except AtfError as error:
            self.refused[type(error).__name__] += 1
            self.failures.append(f"schedule while the store was full: {error}")
        else:
            self.accepted[key] = handle.id
            self.events.append(Accepted(now_us(), key, wall))
        if (took := (now_us() - began) / 1e6) > CALL_BAR_S:
            self.late.append(f"schedule took {took:.1f} s while the store was full")

    async def steadily(self, seconds: float) -> None:
        """Makes RATE calls a second, each at its time whatever became of those before it; returns when all were answered."""
        clock, due = asyncio.get_running_loop().time, 0
        began = clock()
        async with asyncio.TaskGroup() as calls:
            while (since := clock() - began) < seconds:
                before, due = due, int(since * RATE)
                for _ in range(due - before):
                    calls.create_task(self.call())
                await asyncio.sleep(_BEAT_S)


class Full:
    """One time that the store is full.

    Args:
        world: with a small store; its own load stands still.
    """

    def __init__(self, world: LoadedCluster) -> None:
        self.world = world
        self.hold_s = LEASES * world.timing.heartbeat_timeout
        self.call_s: list[float] = []
        self.failures: list[str] = []
        self.late: list[str] = []
        self.cancelled: set[str] = set()
        self.load_per_s = 0.0
        self._began = time.monotonic()
        self._numbers = itertools.count()
        self.long = self._stream(0.0, FILL_S + self.hold_s + 10, Load())
        short = Load(options={"retention": RETENTION_S})
        self.early = self._stream(FILL_S + self.hold_s / 3, _BRIEF_S, short)
        self.fill = self._stream(FILL_S + self.hold_s, _BRIEF_S, short)
        self.load = Once(world.client, world.namespace, f"{world.namespace[7:]}-l")
        self.streams: list[Stream | Once] = [world.stream, self.long, self.early, self.fill, self.load]

    def _stream(self, due: float, seconds: float, load: Load) -> Stream:
        """A stream of tasks that are due so many seconds after the beginning."""

        def tasks() -> Iterator[PlannedTask]:
            for number in self._numbers:
                delay = max(0.0, self._began + due - time.monotonic())
                yield PlannedTask(f"{self.world.namespace[7:]}-f{number}", seconds, round(delay, 3), 0, True)

        return Stream(self.world.client, self.world.namespace, load, tasks())

    def _all_begun(self) -> bool:
        self.world.poll()
        return self.long.plans.keys() <= {each.task_id for each in self.world.record.begun}

    def returned(self, *streams: Stream | Once) -> bool:
        """Whether every accepted task of these streams has run, but for those that were cancelled."""
        self.world.poll()
        done = {each.task_id for each in self.world.record.ends if each.succeeded}
        return all(each.accepted.keys() - self.cancelled <= done for each in streams)

    async def until(self, holds: Callable[[], Any], what: str, within: float) -> float:
        """Waits until something is so; the seconds that took.

        Raises:
            TimeoutError: it is not.
        """
        began = time.monotonic()
        while not holds():
            if time.monotonic() - began > within:
                raise TimeoutError(f"not within {within:g} s: {what}")
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async def fill_up(self) -> float:
        """Schedules until the store refuses; the seconds that took."""
        self.long.send(LONG_TASKS)
        self.early.send(EARLY_TASKS)
        await self.until(self._all_begun, "all long tasks run", 30)
        while not self.fill.refused[EXHAUSTED]:
            if time.monotonic() - self._began > FILL_S:
                raise TimeoutError(f"{len(self.fill.accepted)} tasks in {FILL_S:g} s did not fill the store")
            if self.fill.waiting < _AT_ONCE:
                self.fill.send(_BATCH)
            await asyncio.sleep(0.002)
        return time.monotonic() - self._began

    async def hold(self) -> None:
        """Keeps it full until the tasks that fill it are due, goes on scheduling, and makes every other call meanwhile."""
        end = self._began + FILL_S + self.hold_s - 1
        seconds = end - time.monotonic()
        await asyncio.gather(self._others(end), self.load.steadily(seconds))
        self.load_per_s = len(self.load.called) / seconds
        self.failures += self.load.failures
        self.late += self.load.late
        if not self.load.refused[EXHAUSTED]:
            self.failures.append("no new call was refused while the store was full")
        if not self.returned(self.early):
            self.failures.append("what became due while the store was full did not run")

    async def _others(self, end: float) -> None:
        """Every other call, once a second."""
        ids = list(self.fill.accepted.items())
        victims = iter(ids)
        while time.monotonic() < end:
            before = self.fill.refused[EXHAUSTED]
            key, task_id = next(victims)
            await self.call("cancel", self.world.client.cancel(task_id))
            self.cancelled.add(key)
            await self.call("get", self.world.client.get(ids[-1][1]))
            await self.call("explain", self.world.client.explain(ids[-1][1]))
            await self.call("list", self.world.client.list(f"{self.world.namespace}/work_async", limit=10))
            await self.call("pause", self.world.client.pause(f"{self.world.namespace}/work"))
            await self.call("resume", self.world.client.resume(f"{self.world.namespace}/work"))
            await asyncio.sleep(1)
            if self.fill.refused[EXHAUSTED] == before:
                self.failures.append("the store was not full for a while")

    async def call(self, what: str, call: Awaitable[object]) -> None:
        """One other call; a failure, or a slow one, counts against the row."""
        began = time.monotonic()
        try:
            await call
        except AtfError as error:
            self.failures.append(f"{what} while the store was full: {error}")
        took = time.monotonic() - began
        self.call_s.append(round(took, 3))
        if took > CALL_BAR_S:
            self.late.append(f"{what} took {took:.1f} s while the store was full")

    async def drain(self) -> dict[str, float]:
        """Waits until the calls that were refused have come through, and until all tasks have run; the seconds that each took."""
        due = self._began + FILL_S + self.hold_s
        await self.until(lambda: not self.fill.waiting, "Schedule works again", DRAIN_S)
        again = time.monotonic() - due
        self.fill.send(AFTER_TASKS)
        await self.until(lambda: not any(each.waiting for each in self.streams), "all is accepted", DRAIN_S)
        await self.until(lambda: self.returned(*self.streams), "all tasks have run", DRAIN_S)
        return {"schedule_again_s": round(again, 2), "drained_s": round(time.monotonic() - due, 2)}

    async def judge(self) -> dict[str, float]:
        """Adds to the failures; the counts."""
        world = self.world
        for key, task_id in self.long.accepted.items():
            task = await world.client.get(task_id)
            if (task.status.name, task.losses, task.runs) != ("SUCCESS", 0, 1):
                self.failures.append(f"long task {key}: {task.status.name}, {task.losses} losses, {task.runs} runs")
        end, done = now_us(), self._done()
        history: list[Event] = [each for stream in self.streams for each in stream.events] + events(world.record)
        history += [Gone(at_us, name) for name, at_us in world.deaths.all.items() if name in world.record.processes]
        for key in {key for stream in self.streams for key in stream.accepted}:
            status = "SUCCESS" if key in done else "CANCELLED" if key in self.cancelled else ""
            history.append(Found(end, key, status, bool(status)))
        verdict = check(history)
        self.failures += [f"{each.breach.name} {each.task_id}: {each.text}" for each in verdict.findings[:20]]
        runs = Counter(each.task_id for each in world.record.begun)
        for key, count in runs.items():
            if count > 1:
                began = [
                    f"{each.at_us / 1e6:.3f} in {each.process}" for each in world.record.begun if each.task_id == key
                ]
                self.failures.append(f"{key} ran {count} times: {', '.join(began)}")
        if odd := self.load.turned_away & runs.keys():
            self.failures.append(f"{len(odd)} tasks ran although their calls were refused")
        if self.cancelled & done:
            self.failures.append(f"{len(self.cancelled & done)} cancelled tasks ran")
        refused = sum(each.refused[EXHAUSTED] for each in self.streams)
        return {
            "attempted": verdict.attempted,
            "acknowledged": verdict.acknowledged,
            "repeated": verdict.repeated,
            "refused": refused,
            "load_called": len(self.load.called),
            "load_refused": self.load.refused[EXHAUSTED],
            "load_per_s": round(self.load_per_s, 1),
        }

    def _done(self) -> set[str]:
        self.world.poll()
        return {each.task_id for each in self.world.record.ends if each.succeeded}


async def _once(progress: Progress) -> Trial:
    with tempfile.TemporaryDirectory(prefix="atf-ticks-") as record:
        return await _filled(progress, Path(record))


async def _filled(progress: Progress, record: Path) -> Trial:
    async with bench(
        progress,
        {ticks.FOLDER: str(record)},
        load=Load(rate=0, failing_share=0),
        settings={"maxmemory_mib": MAXMEMORY_MIB},
        apps=["proof.chaos.ticks:app"],
    ) as world:
        full, wanting = Full(world), Wanting(world.client, record)
        await wanting.begin(FILL_S / 2, FILL_S + full.hold_s)
        filled = await full.fill_up()
        tasks = len(full.fill.accepted)
        progress.say(f"full after {filled:.1f} s, with {tasks} tasks")
        await full.hold()
        progress.say(f"{len(full.call_s)} other calls, the slowest {max(full.call_s):.2f} s; they become due")
        times = await full.drain()
        wanted = await wanting.end(DRAIN_S)
        full.failures += wanted.pop("failures")
        counts = await full.judge()
        progress.say(f"Schedule worked again {times['schedule_again_s']} s after they became due; {counts}")
        if full.failures or full.late:
            (world.directory / "keep").touch()
            progress.say(f"BROKEN; what the roles said, and the record, are in {world.directory}")
        more = {"filled_s": round(filled, 2), "call_s": full.call_s, "cancelled": len(full.cancelled)}
        return {"failures": full.failures, "late": full.late, "filled": tasks, **more, **times, **counts, **wanted}


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    return [await _once(progress) async for _ in progress.trials(n)]


ROWS: Final = [
    Row(
        name="store-full",
        what=f"a store of {MAXMEMORY_MIB} MiB full for 1.5 leases while tasks run and {RATE} new calls a second go on, a job ticks each second and {FIRSTS} tasks ask first_time; then drained",
        bar="Schedule answers RESOURCE_EXHAUSTED each time, or accepts; no lease expires, every call that writes nothing new works, due tasks run; it drains by itself;"
        " lost 0; every tick makes one task, however late; a task whose first_time was refused asks again in its next attempt, and succeeds",
        full=3,
        batch=1,
        run=_run,
    )
]
