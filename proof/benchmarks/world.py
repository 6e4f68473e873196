"""One system on a fresh store, with its workers and its client: what a question measures, and what goes when it has.

    async with BenchmarkWorld(system, tasks=50_000, workers=True) as world:
        told = await world.client.ask("many", first=0, count=50_000)
        await world.finished(range(50_000))
        world.ledger.starts(range(50_000))

All systems get the same: the store server that ATF brings (or finds), append-only file synced once a second, on a Unix socket of
its own, in an empty directory; the same ledger. ATF's roles are those of `atf up`, one process each, on that store. Only a question
about larger installations has another layout, a store on TCP, and a client for each frontend; part of the one about batches has more partitions.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from atf.bench import proc
from atf.embedded import DataDir, EmbeddedStore, find_binary

from .driver import STORE
from .far import FarHosts
from .known import ROOT, System
from .ledger import LEDGER, RunsLedger
from .ours import AS_ATF_UP, Layout, OurRoles
from .roles import GRACE_S, UP_S, BenchError, BenchmarkRoles, ClientProcess, PeerRoles
from .stores import LoopbackStore

WARM: Final = 256
"""Tasks that run before anything is measured, twice; they have the last numbers."""
STALLED_S: Final = 60.0
"""Seconds without a single start after which a measurement is given up."""
_LOOK_S: Final = 0.02
_SETTLE_S: Final = 0.5
_CALM: Final = 0.2
"""Cores that all processes together may take when nothing is to do: those that poll do so, and one that starts takes more."""


class NotAsked(Exception):
    """A system can't do what a question is about; the text says why."""


class BenchmarkWorld:
    """One system, running.

    Args:
        system: which.
        tasks: numbers that the ledger is to have.
        workers: whether they run from the beginning.
        layout: how many there are of ATF's roles.
        durability: of the store: relaxed, or disk.
        cluster: whether the store is, on TCP, one server (False) or a cluster (True), both relaxed; None: on a Unix socket.
        env: more variables of all its processes.
        far: makes the hosts of client, roles, store and workers far from one another; None: all are one. The store is on a Unix socket.

    Attributes:
        clients: one, or one for each frontend.
    """

    def __init__(
        self,
        system: System,
        tasks: int,
        *,
        workers: bool = True,
        layout: Layout = AS_ATF_UP,
        durability: str = "relaxed",
        cluster: bool | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
        far: FarHosts | None = None,
    ) -> None:
        self._far = far
        self.system, self.tasks = system, tasks
        self.folder = Path(tempfile.mkdtemp(prefix="atf-bench-"))
        self.ledger = RunsLedger.create(tasks + 2 * WARM)
        self.clients: list[ClientProcess] = []
        self.store: EmbeddedStore | LoopbackStore = (
            EmbeddedStore(find_binary(), DataDir(self.folder / "store"), durability=durability)
            if cluster is None
            else LoopbackStore(self.folder / "store", cluster=cluster)
        )
        self._workers = workers
        self._log = (self.folder / "said.log").open("w", encoding="utf-8", buffering=1)
        self._warm = 0
        self.env = environment(self.folder) | {
            LEDGER: str(self.ledger.path),
            STORE: self.socket if far is None else str(self.folder / "far"),
        }
        self.env |= {**system.env, **env}
        url = self.store.url if far is None else f"unix://{self.env[STORE]}"
        self.roles: BenchmarkRoles = (
            OurRoles(url, self.env, self._say, layout, compact=system.compact, direct=system.direct, far=far)
            if system.ours
            else PeerRoles(system, self.env, self._say)
        )

    async def __aenter__(self) -> Self:
        try:
            await self.store.start()
            if self._far is not None:
                await self._far.link(self.socket, self.env[STORE])
            await self.roles.start(self._workers)
            self.clients = await asyncio.gather(
                *(
                    ClientProcess.start(self.system, self.env | env, self._log.fileno())
                    for env in self.roles.client_envs
                )
            )
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
        for client in self.clients:
            await client.stop()
        await self.roles.stop()
        await self.store.stop(GRACE_S)
        self._log.close()
        self.ledger.remove()
        if keep:
            print(f"what {self.system.name} said is in {self.folder}/said.log", file=sys.stderr)
            shutil.rmtree(self.folder / "store", ignore_errors=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def socket(self) -> str:
        """The path of the store's own socket."""
        return self.store.url.removeprefix("unix://")

    @property
    def client(self) -> ClientProcess:
        """The first one."""
        return self.clients[0]

    async def many(self, numbers: range) -> dict[str, int]:
        """Has the clients schedule tasks as fast as they can, an equal share each; begin and end, in ns of the monotonic clock."""
        bounds = [numbers.start + len(numbers) * place // len(self.clients) for place in range(len(self.clients) + 1)]
        told = await asyncio.gather(
            *(
                client.ask("many", first=first, count=end - first)
                for client, first, end in zip(self.clients, bounds, bounds[1:], strict=False)
            )
        )
        return {"begun": min(each["begun"] for each in told), "ended": max(each["ended"] for each in told)}

    async def warm_up(self) -> None:
        """Two rounds of tasks, and a wait for the worker that has run none of them since the other one was up before."""
        for _ in range(2 - self._warm):
            numbers = range(self.tasks + self._warm * WARM, self.tasks + (self._warm + 1) * WARM)
            self._warm += 1
            await self.many(numbers)
            if await self.finished(numbers, stalled=UP_S / 2):
                raise BenchError(f"{self.system.name} runs no tasks")
            await asyncio.sleep(_SETTLE_S)
        await calm(self.cpu)

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
        clients = [each.pid for each in self.clients]
        return {"client": clients, **self.roles.pids(), "store": self.store_pids()}

    def store_pids(self) -> list[int]:
        """The store's servers."""
        return self.store.pids if isinstance(self.store, LoopbackStore) else [self.store.pid]

    def cpu(self) -> Cpu:
        """Seconds of CPU by role since each began."""
        return Cpu(self.pids())

    def cpu_since(self, before: Cpu) -> dict[str, float]:
        """Seconds of CPU by role.

        Raises:
            BenchError: a process has ended since, and what it used is not known.
        """
        now = self.cpu()
        self.must_live(before.pids)
        return proc.less(now, before)

    def must_live(self, pids: Iterable[int]) -> None:
        """Raises BenchError unless all of these are still among its processes."""
        if ended := set(pids).difference(*self.pids().values()):
            raise BenchError(
                f"{len(ended)} of the processes of {self.system.name} ended while they were measured, and what they had used is not known:"
                " without heartbeats for long an executor ends itself. Measure again when the machine has less other work"
            )

    async def used_bytes(self) -> int:
        """Bytes that the store says it uses for its data."""
        reader, writer = await asyncio.open_unix_connection(self.socket)
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


class Cpu(dict[str, float]):
    """Seconds of CPU by role.

    Attributes:
        pids: of whom.
    """

    def __init__(self, roles: Mapping[str, Sequence[int]]) -> None:
        super().__init__(proc.cpu_by_role(roles))
        self.pids = frozenset(pid for each in roles.values() for pid in each)


async def calm(cpu: Callable[[], Mapping[str, float]], every_s: float = _SETTLE_S) -> None:
    """Returns when processes take next to no CPU: one that still imports its libraries takes it from what is measured. It gives up after a minute.

    Args:
        cpu: seconds that each has used.
        every_s: seconds between two looks.
    """
    used = sum(cpu().values())
    for _ in range(int(UP_S / _SETTLE_S)):
        await asyncio.sleep(every_s)
        before, used = used, sum(cpu().values())
        if used - before <= _CALM * every_s:
            return


def environment(folder: Path) -> dict[str, str]:
    """Ours without settings of ATF, and with this checkout; nothing of the caller's shell makes a system slower."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    return ours | {"PYTHONPATH": str(ROOT), "ATF_CONFIG": str(folder / "none.toml"), "PYTHONDONTWRITEBYTECODE": ""}
