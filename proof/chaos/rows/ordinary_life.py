"""Row: what happens to every cluster in an ordinary month, in half an hour, under 200 tasks a second. None of it may cost a task anything.

Two worker hosts, each kept alive by a supervisor. One trial is:
1. a rolling deploy: the signature of the load's lambdas changes; one host after the other drains and comes back with the new release,
   and services send the new payload as soon as the first one is up
2. in every fourth, a task that makes its executor renew itself for its memory
3. a stop of a host as a service manager does it: SIGTERM to each of its processes, within 50 ms, in any order; in every tenth what is left
   after a second is killed, as container runtimes do
4. in every tenth, a restart of the store (appendfsync everysec); in another, a frontend that stands still for 5 to 20 s while somebody waits
   for a result

Beside it, all along: tasks that fork, long tasks that `drain_timeout` cuts, and a host and a store consumer whose log is on a full disk.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from atf.cli.local.processes import ExecutorPids, descendants, executors_of
from atf.cli.local.role_process import RoleProcess
from atf.cli.local.supervisor import Supervisor
from atf.client import AsyncClient
from atf.errors import AtfError
from atf.sdk.handle import Handle
from atf.sdk.schedulable import named
from atf.verify.load import Load, PlannedTask, Stream
from atf.verify.record_files import pid_of
from proof.chaos import ordinary
from proof.chaos.bench import Struck, bench_of, settled
from proof.chaos.frame import Progress, Row, Trial
from proof.chaos.storewatch import EVERYSEC

LOAD: Final = Load(rate=200, long_s=5.0, long_share=0.005)
DRAIN_TIMEOUT_S: Final = 3.0
"""Shorter than the longest tasks of the load: these are cut, again and again."""
RENEWED_AT_MIB: Final = 400
"""Of an executor; a worker takes about 80."""
FREEZE_S: Final = (5.0, 20.0)
_UP_S: Final = 90.0
_SPREAD_S: Final = 0.05
_LEFT_S: Final = 1.0
"""Seconds after a stop's signals in which a container runtime lets its processes end, where it kills."""
_LOOK_S: Final = 0.05
_FORK_EVERY_S: Final = 2.0
_APP: Final = "proof.chaos.ordinary:app"
_LATE: Final = 7
_SQUARED: Final = 5
"""Numbers that a task that forks has its children square."""


class _Payloads(Stream):
    """The load, as services of the newest release that they know of send it."""

    release = 0

    def payload(self, each: PlannedTask) -> dict[str, Any]:
        return {**super().payload(each), ordinary.parameter(self.release): "red"}


class OrdinaryHost:
    """A worker host.

    Args:
        world: whose tasks it runs.
        pid: its controller's process; 0 while none runs.
    """

    def __init__(self, world: Life, pid: Callable[[], int]) -> None:
        self._world, self._pid = world, pid

    def executors(self) -> list[ExecutorPids]:
        """Those that run now."""
        pid = self._pid()
        return executors_of(pid) if pid else []

    async def stop(self, *, all_processes: bool, kill: bool = False) -> None:
        """SIGTERM, to the controller alone or to each of the host's processes; returns when the host works again.

        Args:
            all_processes: whether guards, workers and what these have started get the signal too, in any order.
            kill: whether what lives after a second is killed.
        """
        controller = self._pid()
        pids = descendants(controller) if all_processes else []
        order = [controller, *pids]
        random.shuffle(order)
        for pid in order:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            await asyncio.sleep(random.uniform(0, _SPREAD_S / len(order)))
        if kill:
            await asyncio.sleep(_LEFT_S)
            for pid in [controller, *descendants(controller), *pids]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await self.works(since=controller)

    async def works(self, since: int = 0) -> None:
        """Waits until another controller than `since` runs, and one of its executors has begun tasks.

        Raises:
            TimeoutError: it does not.
        """
        async with asyncio.timeout(_UP_S):
            while True:
                self._world.poll()
                writers = {pid_of(each) for each in self._world.record.processes}
                if self._pid() not in {0, since} and writers & {each.worker for each in self.executors()}:
                    return
                await asyncio.sleep(_LOOK_S)


class Life(Struck):
    """The cluster: one host is the bench's own, one stands beside it."""

    def __init__(self, directory: Path, **more: Any) -> None:
        release = directory / "release"
        release.write_text("0", "ascii")
        env = {
            **more.pop("env"),
            ordinary.RELEASE: str(release),
            "ATF_DRAIN_TIMEOUT": f"{DRAIN_TIMEOUT_S:g}",
            "ATF_MAX_RSS_MIB": str(RENEWED_AT_MIB),
        }
        super().__init__(directory, env=env, app=_APP, **more)
        self._release = release
        self._beside = Supervisor(lambda _name, _line: None, steady_after=1.0)
        self.counts: dict[str, int] = {}
        self.asked: list[Handle[Any]] = []
        """Tasks beside the load."""
        self.broken: list[str] = []

    def stream_of(self, tasks: Iterator[PlannedTask], slack_us: int) -> Stream:
        return _Payloads(self.client, self.namespace, self.load, tasks, slack_us=slack_us)

    async def begin(self) -> None:
        """Starts what stands beside the bench's own roles."""
        of_store = {**self.env, "ATF_REDIS_URL": self.cluster.redis_url}
        store = ["--partitions", str(self.cluster.partitions), "--durability", EVERYSEC]
        addresses = ["--hsc", self.cluster.addresses["hsc"], "--frontend", self.cluster.frontend_address]
        for name, words, env in (
            ("store-consumer", store, of_store),
            ("controller", [*addresses, "--executors", "1", _APP], dict(self.env)),
        ):
            await self._beside.start(RoleProcess(name, _on_a_full_disk(name, words), env, lambda _name, _line: None))
        self.hosts = [
            OrdinaryHost(self, lambda: self.cluster.pid("controller")),
            OrdinaryHost(self, lambda: self._beside.pid("controller")),
        ]
        self.start()
        for each in self.hosts:
            await each.works()
        self._running.append(asyncio.create_task(self._fork()))

    async def close(self) -> None:
        for name in ("controller", "store-consumer"):
            if name in self._beside.names:
                await self._beside.stop(name, 20)
        await super().close()

    def count(self, what: str) -> None:
        """Takes note that something was done."""
        self.counts[what] = self.counts.get(what, 0) + 1

    async def ask(self, name: str, payload: dict[str, Any], **options: Any) -> Handle[Any]:
        """Schedules a task beside the load, until it is accepted."""
        while True:
            try:
                handle = await self.client.schedule(named(f"{self.namespace}/{name}", payload, options))  # type: ignore[arg-type]
            except AtfError:
                await asyncio.sleep(_LOOK_S)
            else:
                self.asked.append(handle)
                return handle

    # --- what happens -------------------------------------------------------------------------------------------------

    async def deploy(self) -> None:
        """Both hosts, one after the other, by the word to the controller or by signals to all."""
        number = int(self._release.read_text("ascii")) + 1
        self._release.write_text(str(number), "ascii")
        for host in random.sample(self.hosts, len(self.hosts)):
            await host.stop(all_processes=random.random() < 0.5)
            self.stream.release = number  # type: ignore[attr-defined]
        self.count("deploys")

    async def stop_a_host(self, *, kill: bool) -> None:
        """As a service manager does it."""
        await random.choice(self.hosts).stop(all_processes=True, kill=kill)
        self.count("stops")
        if kill:
            self.count("killed_after_a_second")

    async def renew(self) -> None:
        """A task makes its process take more memory than it may: that one must drain, and end."""
        handle = await self.ask("grow", {"mib": RENEWED_AT_MIB + 20})
        pid = await handle.result_async(timeout=60)
        async with asyncio.timeout(_UP_S):
            while any(pid == each.worker for host in self.hosts for each in host.executors()):
                await asyncio.sleep(_LOOK_S)
        self.count("renewals")

    async def restart_store(self) -> None:
        """In order, as a package's update does it; its supervisor starts it again."""
        self.kill("store", "restart", signal.SIGTERM)
        self.strikes.clear()  # it is judged by what became of the tasks alone
        self.count("store_restarts")

    async def freeze_frontend(self) -> None:
        """The frontend stands still for a while, and somebody waits for a result through it."""
        seconds = random.uniform(*FREEZE_S)
        async with AsyncClient(self.cluster.frontend_address) as client:
            handle = await client.schedule(named(f"{self.namespace}/late", {"number": _LATE}, {"delay": seconds + 2}))
            self.asked.append(handle)
            waiting = asyncio.create_task(handle.result_async(timeout=120))
            await asyncio.sleep(1)
            pid = self.cluster.pid("frontend")
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                os.kill(pid, signal.SIGCONT)
            try:
                if (came := await waiting) != _LATE:
                    self.broken.append(f"a wait while the frontend stood still came to {came!r}, not {_LATE}")
            except AtfError as error:
                self.broken.append(f"a wait ended while the frontend stood still: {type(error).__name__}: {error}")
        self.count("frozen_frontends")

    async def _fork(self) -> None:
        while True:
            await self.ask("forks", {"count": _SQUARED})
            self.count("forking_tasks")
            await asyncio.sleep(_FORK_EVERY_S)

    async def judge_beside(self) -> list[str]:
        """What became of the tasks beside the load: each must have succeeded in its first attempt, with the right result, and have lost nothing."""
        results = {"forks": sum(number * number for number in range(_SQUARED)), "late": _LATE}
        client = AsyncClient(self.cluster.frontend_address)
        async with client:
            infos = [await client.get(each.id) for each in self.asked]
        return [
            f"{each.lambda_name} {each.id}: {each.status.name}, {each.attempts} attempts, {each.losses} losses, {each.result!r}, {each.error[:200]}"
            for each in infos
            if (each.status.name, each.attempts, each.losses) != ("SUCCESS", 1, 0)
            or results.get(each.lambda_name.rpartition("/")[2], each.result) != each.result
        ]


def _on_a_full_disk(name: str, words: Sequence[str]) -> Callable[[str], Sequence[str]]:
    """The command line of a role each of whose lines the disk refuses."""
    program = [sys.executable, "-P", "-m", "atf.cli", name]

    def command(before: str) -> list[str]:
        line = [*program, "--listen", before or "127.0.0.1:0", *words]
        return ["/bin/sh", "-c", 'exec "$@" >/dev/full 2>&1', "sh", *line]

    return command


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    async with bench_of(Life, progress, load=LOAD, executors=1, settings={"durability": EVERYSEC}) as world:
        await world.begin()
        trials: list[Trial] = []
        async for number in progress.trials(n):
            began, before = time.monotonic(), dict(world.counts)
            beside: list[Awaitable[None]] = []
            if number % 10 == 3:
                beside.append(asyncio.create_task(world.restart_store()))
            if number % 10 == 7:
                beside.append(asyncio.create_task(world.freeze_frontend()))
            await world.deploy()
            if number % 4 == 0:
                await world.renew()
            await world.stop_a_host(kill=number % 10 == 5)
            await asyncio.gather(*beside)
            await settled(world, 0.1, 0.2)
            done = {name: count - before.get(name, 0) for name, count in world.counts.items()}
            progress.say(
                f"{', '.join(f'{count} {name}' for name, count in done.items())}; {time.monotonic() - began:.1f} s"
            )
            trials.append({"failures": [], "late": world.told.pop()["late"], **done})
        outcome = await world.drain()
        said = [*outcome.failures, *_cost(outcome.figures()), *world.broken, *await world.judge_beside()]
        if said:
            (world.directory / "keep").touch()
            progress.say(
                f"BROKEN: {'; '.join(said[:20])}; what the roles said, and the record, are in {world.directory}"
            )
            for each in outcome.findings:
                progress.say(f"  {each}")
        if trials:
            trials[0] = {**trials[0], **outcome.figures(), "beside": len(world.asked), "failures": said}
        return trials


def _cost(figures: dict[str, Any]) -> list[str]:
    """What nothing of this may cost."""
    names = {"losses": "losses counted", "spent": "attempts used up", "dead": "dead letters"}
    return [f"{figures[name]} {what}" for name, what in names.items() if figures[name]]


ROWS: Final = [
    Row(
        name="ordinary-life",
        what="200 tasks/s, beside tasks that fork and logs on full disks: rolling deploys that change signatures, stops that reach every process,"
        " renewals for memory, restarts of the store at everysec, frontends that stand still",
        bar="lost 0, concurrent 0, early 0; no dead letter, no attempt and no loss counted that the tasks did not ask for; no wait ends",
        full=200,
        batch=20,
        run=_run,
        timed=False,
    )
]
