"""Runs a cluster of real roles under a steady load, for whoever strikes at it, and says at the end what became of every task.

    async with Bench(directory, seed=7) as bench:       # a store and every role; `redis_url` names another store
        bench.start()                                   # 500 tasks a second from here on
        strike = bench.kill("hsc")
        await bench.recovered(strike)
        outcome = await bench.drain()                   # no more load; waits until all is quiet, and judges
    outcome.failures, outcome.figures(), outcome.recoveries

It owns the load, the record, and the order of things. It believes nothing of ATF but what the store says of a task at the end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.cli.local.role_process import Say
from atf.client import AsyncClient
from atf.config.loading import load as load_settings
from atf.config.settings import Timing
from atf.runtime import SystemRuntime, new_id
from atf.task import US

from .events import Event, Found, Gone, Recorded
from .lambdas import NAMESPACE, RETENTION, RETENTION_S
from .load import Load, PlannedTask, Stream, planned
from .outcome import LoadOutcome, Strike, judge
from .record import DIRECTORY, VerifyRecord, events, now_us
from .record_files import pid_of
from .stored import StoredTasks
from .watched import LOOK_S, WatchedCluster

APP: Final = "atf.verify.lambdas:app"
_WARM_UP_S: Final = 30.0
_CALL_S: Final = 10.0
"""Seconds that one call of the frontend takes at most, repetitions by the client included."""
_STEADY_S: Final = 1.0
"""Roles are struck again and again here; each is to be started again at once, as after the first time."""
_STOP_S: Final = 10.0
_PREFIX: Final = "verify-"
_DRIFT_US: Final = 2_000
"""By which the clock of a store elsewhere may run apart from ours while a task is delayed."""


def drain_s(timing: Timing) -> float:
    """Seconds after the load until what is not finished counts as stuck: what leases and timeouts may take, and more."""
    return 4 * timing.heartbeat_timeout + 60


class LoadedCluster(WatchedCluster):
    """One cluster under load.

    Args:
        directory: of its own, empty: the record, and the embedded store's data.
        redis_url: a running store; "": an embedded one.
        seed: of the load.
        load: what it is like.
        executors: how many the controller keeps.
        retention: seconds that the records of the load's finished tasks stay; what is swept before the end counts as lost.
        env: of the roles; default ours.
        settings: more of ClusterSettings, by name.
        app: where the load's lambdas are, "module:app".
        apps: what executors load beside them, "module:app" each.
        say: takes a role's name and a line of it.

    Attributes:
        client: of the roles' frontend.
        stream: the load.
        stored: what the store says of its tasks.
        notes: further events for the judge; see history.py.
        timing: of the roles.
    """

    client: AsyncClient
    stream: Stream
    stored: StoredTasks

    def __init__(
        self,
        directory: Path,
        *,
        redis_url: str = "",
        seed: int = 0,
        load: Load | None = None,
        executors: int = 2,
        retention: float = RETENTION_S,
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        app: str = APP,
        apps: Sequence[str] = (),
        say: Say = lambda _name, _line: None,
    ) -> None:
        ours = dict(os.environ if env is None else env)
        self.namespace = f"{_PREFIX}{new_id(SystemRuntime().random, 32)}"
        self.directory, self.load, self.seed, self.executors = directory, load or Load(), seed, executors
        record = VerifyRecord(directory / "record")
        record.directory.mkdir(parents=True)
        self.env = {
            **ours,
            DIRECTORY: str(record.directory),
            NAMESPACE: self.namespace,
            RETENTION: f"{retention:.0f}",
        }
        self.timing = load_settings(Timing, env=self.env)
        more: dict[str, Any] = {"data_dir": str(directory / "store"), "free_ports": True, **(settings or {})}
        cluster_settings = ClusterSettings(redis_url=redis_url, executors=executors, **more)
        cluster = Cluster(cluster_settings, [app, *apps], env=self.env, say=say, steady_after=_STEADY_S)
        super().__init__(cluster, record)
        self.notes: list[Event] = []
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            await self.cluster.start()
            self.client = AsyncClient(self.cluster.frontend_address, timeout=_CALL_S)
            self.stored = StoredTasks(self.client, [f"{self.namespace}/{name}" for name in ("work", "work_async")])
            tasks = planned(self.load, self.seed, self.namespace.removeprefix(_PREFIX))
            slack_us = _DRIFT_US if self.cluster.settings.redis_url else 0
            self.stream = self.stream_of(tasks, slack_us)
            await self._warm_up()
        except BaseException:
            await self.close()
            raise
        self._running.append(asyncio.create_task(self._look()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def stream_of(self, tasks: Iterator[PlannedTask], slack_us: int) -> Stream:
        """Makes the load; for a bench whose calls differ."""
        return Stream(self.client, self.namespace, self.load, tasks, slack_us=slack_us)

    async def close(self) -> None:
        """Ends everything that was started."""
        for each in self._running:
            each.cancel()
        if hasattr(self, "client"):
            await self.client.close()
        await self.cluster.stop(_STOP_S)
        self.deaths.stop()

    # --- load ---

    def start(self) -> None:
        """Starts the load."""
        self._running.append(asyncio.create_task(self.stream.run()))

    def stop_load(self) -> None:
        """Schedules no more."""
        for each in self._running[1:]:  # the first looks out
            each.cancel()

    @property
    def done(self) -> int:
        """Runs that have returned."""
        return len(self.record.ends)

    async def recovered(self, strike: Strike, within: float = 60.0) -> bool:
        """Waits until a task asked for after the strike has started, and all that were due before or cut off."""
        until = time.monotonic() + within
        cut_off = {key for key, _ in strike.cut_off} if strike.what != "freeze" else set()
        called, plans = self.stream.called, self.stream.plans
        waiting = {key for key in called if called[key] + round(plans[key].delay * US) < strike.at_us} - cut_off
        place, fresh = 0, False
        while time.monotonic() < until:
            self.poll()
            for run in self.record.begun[place:]:
                waiting.discard(run.task_id)
                if run.at_us > strike.at_us:
                    cut_off.discard(run.task_id)
                    fresh = fresh or self.stream.called.get(run.task_id, 0) >= strike.at_us
            place = len(self.record.begun)
            if fresh and not waiting and not cut_off:
                return True
            await asyncio.sleep(LOOK_S)
        return False

    # --- the end ---

    async def drain(self, within: float | None = None) -> LoadOutcome:
        """Ends the load, waits until nothing is left to do, and judges.

        Args:
            within: seconds until what is not finished counts as stuck; default what leases and timeouts may take, and more.

        Raises:
            AtfError: the frontend does not answer.
        """
        seconds = within or drain_s(self.timing)
        until = time.monotonic() + seconds
        self.stop_load()
        await self.stream.wait_accepted(seconds)
        while time.monotonic() < until and await self.stored.left():  # noqa: ASYNC110  the store's counters wake nobody
            await asyncio.sleep(4 * LOOK_S)
        return await self._judge()

    async def _judge(self) -> LoadOutcome:
        self.poll()
        endings = await self.stored.endings(self.stream.accepted)
        self.poll()
        end = now_us()
        history = [*self.stream.events, *events(self.record), *self.notes, *self._gone()]
        for key, ending in endings.items():
            if ending.status == "SUCCESS":
                history.append(Recorded(end, key, int(ending.result)))  # no claim can be younger than that
        for key in {*self.stream.called, *endings}:
            found = endings.get(key)
            history.append(Found(end + 1, key, found.status if found else "", found is not None and found.finished))
        return judge(history, endings, self.stream.plans, self.strikes, self.stream.refused)

    def _gone(self) -> list[Event]:
        """The ends of processes. One that we killed ran no code any more from then on, whenever it was seen to be dead."""
        killed = {strike.pid: strike.at_us for strike in self.strikes if strike.what == "kill"}
        processes = set(self.record.processes)
        return [
            Gone(min(at_us, killed.get(pid_of(name), at_us)), name)
            for name, at_us in self.deaths.all.items()
            if name in processes
        ]

    async def _look(self) -> None:
        while True:
            self.poll()
            await asyncio.sleep(LOOK_S)

    async def _warm_up(self) -> None:
        """Waits until every executor has run tasks: their start is not what is tried."""
        until = time.monotonic() + _WARM_UP_S
        while time.monotonic() < until:
            self.stream.send(4 * self.executors)
            await asyncio.sleep(4 * LOOK_S)
            self.poll()
            if len(self.record.processes) >= self.executors:
                return
