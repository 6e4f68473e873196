"""ATF's processes in a measurement: those of `atf up`, and more of each role beside them where a question is about that."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from atf.bench import proc
from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.cli.local.processes import ExecutorPids, executors_of
from atf.cli.local.role_process import RoleProcess
from atf.config.settings import StoreSettings, Timing
from atf.runtime import SystemRuntime
from atf.store.store import Store

from .far import FarHosts
from .roles import GRACE_S, LOOK_S, UP_S, BenchError, kill_all

EXECUTORS: Final = 2
APP: Final = "proof.benchmarks.systems.atf:app"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many there are of what.

    Attributes:
        frontends: each has a client of its own.
        hscs: each controller and its executors call one of them, in turns.
        store_consumers: all of them look at all partitions.
        controllers: they share the two executors.
        partitions: of the store.
    """

    frontends: int = 1
    hscs: int = 1
    store_consumers: int = 1
    controllers: int = 1
    partitions: int = 1


AS_ATF_UP: Final = Layout()


class OurRoles:
    """The processes of `atf up`, with two executors, on a store that runs already, and those that a layout has beside them.

    Args:
        url: the store's.
        env: of all processes.
        say: takes a process's name and a line of it.
        layout: how many.
        compact: whether the roles are one process, and the workers another.
        direct: whether the client is its own frontend.
        far: what stands between the hosts of the client, the roles, the store and the workers; None: all are one. The store's URL is that
            of its far end.
    """

    def __init__(
        self,
        url: str,
        env: Mapping[str, str],
        say: Any,
        layout: Layout = AS_ATF_UP,
        *,
        compact: bool = False,
        direct: bool = False,
        far: FarHosts | None = None,
    ) -> None:
        self._each = EXECUTORS // layout.controllers
        self._url, self._compact, self._direct, self._far = url, compact, direct, far
        self._frontends: list[str] = []
        settings = ClusterSettings(
            redis_url=url, partitions=layout.partitions, executors=self._each, free_ports=True, compact=compact
        )
        self.cluster = Cluster(settings, [APP], env=env, say=say)
        self._env, self._say, self._layout = {**env, "ATF_REDIS_URL": url}, say, layout
        self._more: dict[str, list[RoleProcess]] = {}

    async def start(self, workers: bool) -> None:
        await self.cluster.start()
        counts = {
            "hsc": self._layout.hscs,
            "frontend": self._layout.frontends,
            "store-consumer": self._layout.store_consumers,
        }
        await asyncio.gather(*(self._start_more(role, count) for role, count in counts.items()))
        if self._direct:
            await _allow_direct(self._url)
        self._frontends = [await self._from_afar(each) for each in self.addresses("frontend")]
        if self._far is not None:
            await self.cluster.halt("controller")
            await self._far_workers()
        elif workers:
            await self._controllers()
        else:
            await self.cluster.halt("controller")

    async def _from_afar(self, address: str) -> str:
        return address if self._far is None else await self._far.link(address)

    async def _far_workers(self) -> None:
        """Those of a host that is apart from the roles, in place of the cluster's own."""
        role = "worker" if self._compact else "controller"
        hsc = await self._from_afar(self.cluster.addresses["hsc"])
        words = [sys.executable, "-P", "-m", "atf.cli", role, "--listen", "127.0.0.1:0", "--hsc", hsc]
        words += ["--frontend", self._frontends[0], "--executors", str(self._each), APP]
        process = RoleProcess(f"{role} afar", partial(_as_it_is, words), self._env, self._say)
        self._more["controller"] = [process]
        await process.start()
        await self._executors_up()

    async def start_workers(self) -> None:
        await self.cluster.resume("controller")
        await self._controllers()

    async def _start_more(self, role: str, count: int) -> None:
        """Those beyond the first."""
        program = [sys.executable, "-P", "-m", "atf.cli", role, "--listen", "127.0.0.1:0"]
        of_store = ["--partitions", str(self._layout.partitions)]
        for number in range(1, count):
            words = [*program, *(self._of_controller(number) if role == "controller" else of_store)]
            process = RoleProcess(f"{role} {number + 1}", partial(_as_it_is, words), self._env, self._say)
            self._more.setdefault(role, []).append(process)
            await process.start()

    def _of_controller(self, number: int) -> list[str]:
        frontends = self.addresses("frontend")
        addresses = ["--hsc", ",".join(self.addresses("hsc")), "--frontend", frontends[number % len(frontends)]]
        return [*addresses, "--executors", str(self._each), APP]

    async def _controllers(self) -> None:
        """Starts those beyond the first; returns when all executors are up."""
        await self._start_more("controller", self._layout.controllers)
        await self._executors_up()

    async def _executors_up(self) -> None:
        until = time.monotonic() + UP_S
        while len(self._executors()) < EXECUTORS:
            if time.monotonic() > until:
                raise BenchError(f"{EXECUTORS} executors are not up after {UP_S:g} s")
            await asyncio.sleep(LOOK_S)

    async def kill_one(self) -> str:
        victim = max(self._executors(), key=lambda each: proc.cpu_s(each.worker))
        kill_all(victim)
        return f"executor: guard {victim.guard} and worker {victim.worker}"

    async def stop(self) -> None:
        controllers = self._more.pop("controller", [])
        others = [each for processes in self._more.values() for each in processes]
        # Controllers first: their executors still have to say what they did.
        await asyncio.gather(*(each.stop(GRACE_S) for each in controllers))
        await asyncio.gather(self.cluster.stop(GRACE_S), *(each.stop(GRACE_S) for each in others))

    def addresses(self, role: str) -> list[str]:
        """Where the processes of a role serve."""
        return [self.cluster.addresses[role], *(each.address for each in self._more.get(role, []))]

    def _executors(self) -> list[ExecutorPids]:
        more = [pids for each in self._more.get("controller", []) for pids in executors_of(each.pid)]
        return self.cluster.executors() + more

    def pids(self) -> dict[str, list[int]]:
        roles = {name: [pid] for name in self.cluster.names if (pid := self.cluster.pid(name))}
        for role, processes in self._more.items():
            roles[role] = roles.get(role, []) + [each.pid for each in processes]
        executors = self._executors()
        guards = {"guards": [each.guard for each in executors], "executors": [each.worker for each in executors]}
        return roles | guards if executors else roles

    @property
    def client_envs(self) -> list[dict[str, str]]:
        if self._direct:
            return [{"ATF_FRONTEND": self._url}]
        return [{"ATF_FRONTEND": address} for address in self._frontends]


async def _allow_direct(url: str) -> None:
    store = await Store.open(StoreSettings(redis_url=url), Timing(), SystemRuntime(), agree=False)
    await store.allow_direct(True)
    await store.close()


def _as_it_is(words: Sequence[str], _before: str) -> Sequence[str]:
    """The command of a process that is not started again."""
    return words
