"""One system on a fresh store, with its workers and one client: what a question measures, and what goes when it has.

    async with World(system, tasks=50_000, workers=True) as world:
        told = await world.client.ask("many", first=0, count=50_000)
        await world.finished(range(50_000))
        world.ledger.starts(range(50_000))

All systems get the same: the store server that ATF brings (or finds), append-only file synced once a second, on a Unix socket of
its own, in an empty directory; the same ledger. ATF's roles are those of `atf up`, one process each, on that store.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol, Self

from atf.cli.cluster import Cluster, ClusterSettings
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.embedded.child import Child
from atf.errors import AtfError

from . import proc
from .driver import STORE
from .known import ROOT, System
from .ledger import LEDGER, Ledger

WARM: Final = 256
"""Tasks that run before anything is measured, twice; they have the last numbers."""
STALLED_S: Final = 60.0
"""Seconds without a single start after which a measurement is given up."""
EXECUTORS: Final = 2
APP: Final = "tests.bench.systems.atf:app"
_LOOK_S: Final = 0.02
_UP_S: Final = 60.0
_SETTLE_S: Final = 0.5
_GRACE_S: Final = 5.0
_LONGEST_ANSWER: Final = 64 << 20


class BenchError(AtfError):
    """A measurement could not be done; the text says why."""


class NotAsked(Exception):
    """A system can't do what a question is about; the text says why."""


class Roles(Protocol):
    """The part of a system that runs tasks."""

    async def start(self, workers: bool) -> None: ...

    async def start_workers(self) -> None: ...

    async def kill_one(self) -> str:
        """SIGKILL to the busiest worker with all its processes; somebody starts it again. Returns what was killed."""
        ...

    async def stop(self) -> None: ...

    def pids(self) -> dict[str, list[int]]: ...

    @property
    def client_env(self) -> dict[str, str]: ...


class World:
    """One system, running.

    Args:
        system: which.
        tasks: numbers that the ledger is to have.
        workers: whether they run from the beginning.
    """

    client: ClientProcess

    def __init__(self, system: System, tasks: int, *, workers: bool = True) -> None:
        self.system, self.tasks = system, tasks
        self.folder = Path(tempfile.mkdtemp(prefix="atf-bench-"))
        self.ledger = Ledger.create(tasks + 2 * WARM)
        self.store = EmbeddedStore(find_binary(), DataDir(self.folder / "store"), durability="relaxed")
        self._workers = workers
        self._log = (self.folder / "said.log").open("w", encoding="utf-8", buffering=1)
        self._warm = 0
        self.env = environment(self.folder) | {LEDGER: str(self.ledger.path), STORE: self.store.url[len("unix://") :]}
        self.env |= system.env
        self.roles: Roles = (
            OurRoles(self.store.url, self.env, self._say) if system.ours else PeerRoles(system, self.env, self._say)
        )

    async def __aenter__(self) -> Self:
        try:
            await self.store.start()
            await self.roles.start(self._workers)
            self.client = await ClientProcess.start(self.system, self.env | self.roles.client_env, self._log.fileno())
            if self._workers:
                await self.warm_up()
        except BaseException:
            await self.close(keep=True)
            raise
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(keep=kind not in {None, asyncio.CancelledError, NotAsked})

    async def close(self, *, keep: bool = False) -> None:
        """Ends everything that was started; keeps what was said, if so asked."""
        if hasattr(self, "client"):
            await self.client.stop()
        await self.roles.stop()
        await self.store.stop(_GRACE_S)
        self._log.close()
        self.ledger.remove()
        if keep:
            print(f"what {self.system.name} said is in {self.folder}/said.log", file=sys.stderr)
            shutil.rmtree(self.folder / "store", ignore_errors=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def warm_up(self) -> None:
        """Two rounds of tasks: after them every worker is connected and has run some."""
        for _ in range(2 - self._warm):
            numbers = range(self.tasks + self._warm * WARM, self.tasks + (self._warm + 1) * WARM)
            self._warm += 1
            await self.client.ask("many", first=numbers.start, count=len(numbers))
            if await self.finished(numbers, stalled=_UP_S / 2):
                raise BenchError(f"{self.system.name} runs no tasks")
            await asyncio.sleep(_SETTLE_S)

    async def finished(self, numbers: range, *, within: float = 0.0, stalled: float = STALLED_S) -> int:
        """Waits until all these tasks have run; how many have not when it gave up.

        Args:
            numbers: which.
            within: seconds at most; 0: as long as something moves.
            stalled: seconds without a start after which it gives up.
        """
        begun = moved = time.monotonic()
        ran = 0
        while (now := time.monotonic()) - moved < stalled and not (within and now - begun > within):
            if (seen := self.ledger.ran(numbers)) > ran:
                ran, moved = seen, now
            if ran == len(numbers):
                return 0
            await asyncio.sleep(_LOOK_S)
        return len(numbers) - ran

    def pids(self) -> dict[str, list[int]]:
        """Every process by role, client and store included."""
        return {"client": [self.client.pid], **self.roles.pids(), "store": [self.store.pid]}

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU by role since each began."""
        return proc.cpu_by_role(self.pids())

    async def used_bytes(self) -> int:
        """Bytes that the store says it uses for its data."""
        reader, writer = await asyncio.open_unix_connection(self.env[STORE])
        try:
            writer.write(b"INFO memory\r\n")
            size = int((await reader.readline())[1:])
            said = (await reader.readexactly(size)).decode()
        finally:
            writer.close()
        return int(next(line for line in said.splitlines() if line.startswith("used_memory:")).partition(":")[2])

    def _say(self, name: str, line: str) -> None:
        with contextlib.suppress(ValueError):  # the last words of one that was killed
            print(f"{name:<14} | {line}", file=self._log)


def environment(folder: Path) -> dict[str, str]:
    """Ours without settings of ATF, and with this checkout; nothing of the caller's shell makes a system slower."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    return ours | {"PYTHONPATH": str(ROOT), "ATF_CONFIG": str(folder / "none.toml"), "PYTHONDONTWRITEBYTECODE": ""}


class OurRoles:
    """ATF: the processes of `atf up`, with two executors, on a store that runs already."""

    def __init__(self, url: str, env: dict[str, str], say: Any) -> None:
        settings = ClusterSettings(redis_url=url, partitions=1, executors=EXECUTORS, free_ports=True)
        self.cluster = Cluster(settings, [APP], env=env, say=say)

    async def start(self, workers: bool) -> None:
        await self.cluster.start()
        if workers:
            await self._executors()
        else:
            await self.cluster.halt("controller")

    async def start_workers(self) -> None:
        await self.cluster.resume("controller")

    async def _executors(self) -> None:
        until = time.monotonic() + _UP_S
        while len(self.cluster.executors()) < EXECUTORS:
            if time.monotonic() > until:
                raise BenchError(f"{EXECUTORS} executors are not up after {_UP_S:g} s")
            await asyncio.sleep(_LOOK_S)

    async def kill_one(self) -> str:
        victim = max(self.cluster.executors(), key=lambda each: proc.cpu_s(each.worker))
        for pid in victim:
            os.kill(pid, signal.SIGKILL)
        return f"executor: guard {victim.guard} and worker {victim.worker}"

    async def stop(self) -> None:
        await self.cluster.stop(_GRACE_S)

    def pids(self) -> dict[str, list[int]]:
        roles = {name: [pid] for name in self.cluster.names if (pid := self.cluster.pid(name))}
        executors = self.cluster.executors()
        guards = {"guards": [each.guard for each in executors], "executors": [each.worker for each in executors]}
        return roles | guards if executors else roles

    @property
    def client_env(self) -> dict[str, str]:
        return {"ATF_FRONTEND": self.cluster.frontend_address}


class PeerRoles:
    """A peer: its worker commands, each in a session of its own."""

    def __init__(self, system: System, env: dict[str, str], say: Any) -> None:
        self._system, self._env, self._say = system, env, say
        self._children: list[Child] = []

    async def start(self, workers: bool) -> None:
        if workers:
            await self.start_workers()

    async def start_workers(self) -> None:
        asked = await asyncio.create_subprocess_exec(*self._system.entry, "workers", stdout=PIPE, env=self._env)
        said, _ = await asked.communicate()
        if asked.returncode:
            raise BenchError(f"{self._system.name} does not say how many workers it has")
        self._children = [self._start(place) for place in range(int(said))]

    def _start(self, place: int) -> Child:
        name = f"{self._system.name} {place}"
        command = [*self._system.entry, "worker", str(place)]
        return Child(command, env=self._env, on_line=lambda line: self._say(name, line))

    async def kill_one(self) -> str:
        sessions = [proc.of_session(each.pid) for each in self._children]
        place = max(range(len(sessions)), key=lambda each: sum(map(proc.cpu_s, sessions[each])))
        victim, pids = self._children[place], sessions[place]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await victim.wait()
        self._children[place] = self._start(place)
        return f"worker: processes {' '.join(map(str, pids))}"

    async def stop(self) -> None:
        await asyncio.gather(*(_end(each) for each in self._children))

    def pids(self) -> dict[str, list[int]]:
        return {"workers": [pid for each in self._children for pid in proc.of_session(each.pid)]}

    @property
    def client_env(self) -> dict[str, str]:
        return {}


async def _end(child: Child) -> None:
    """Its tasks are of no interest any more: a second to end in order, then all of its processes are killed."""
    pids = proc.of_session(child.pid)
    await child.stop(1.0)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if pid in proc.of_session(child.pid):
                os.kill(pid, signal.SIGKILL)


class ClientProcess:
    """The client of a system: driver.py in that system's environment."""

    def __init__(self, process: Process, hello: dict[str, Any]) -> None:
        self._process = process
        self.lacks: dict[str, str] = hello["lacks"]

    @classmethod
    async def start(cls, system: System, env: dict[str, str], log: int) -> Self:
        """Starts it; returns when it is connected."""
        command = [*system.entry, "client"]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=log, env=env, limit=_LONGEST_ANSWER
        )
        return cls(process, await _answer(process))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        """What the client says it did, with the instants of its begin and end.

        Raises:
            BenchError: it could not.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": verb, **arguments}).encode() + b"\n")
        answer = await _answer(self._process)
        if "error" in answer:
            raise BenchError(f"{verb}: {answer['error']}")
        return answer

    async def stop(self) -> None:
        """Ends it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


async def _answer(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise BenchError(f"the client ended with code {await process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found


def total(by_role: dict[str, float], without: Iterable[str] = ()) -> float:
    """The sum over roles."""
    return sum(value for role, value in by_role.items() if role not in set(without))
