"""A small real cluster for a drill: the processes that `atf up` starts, on free ports, with the controllers of two hosts and a small store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from atf.cli.local.processes import descendants
from atf.cli.local.role_process import RoleProcess, register_apps
from atf.embedded import DataDir, EmbeddedStore, find_binary

from . import shop

STORE_MIB: Final = 64
HOSTS: Final = ("web-1", "web-2")
_ROLES: Final = ("hsc", "frontend", "store-consumer")
_GRACE: Final = 20.0
_APP: Final = "shop:app"


class DrillCluster:
    """All of it. `hosts` are the controllers that run now, by their host's name.

    Args:
        folder: its data and logs; what stands for the world outside is in `world`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.world, self.releases = folder, folder / "world", folder / "releases"
        for each in (self.world, folder / "logs"):
            each.mkdir()
        shop.write_releases(self.releases)
        names = [*_ROLES, *HOSTS]
        free = iter(free_ports(2 * len(names)))
        self.addresses = {name: f"127.0.0.1:{next(free)}" for name in names}
        self.metrics = {name: f"127.0.0.1:{next(free)}" for name in names}
        self.release = shop.GOOD
        self.hosts: dict[str, RoleProcess] = {}
        self._roles: list[RoleProcess] = []
        data = DataDir(folder / "data")
        data.lock()
        self.store = EmbeddedStore(find_binary(), data, durability="relaxed", maxmemory_mib=STORE_MIB)

    @property
    def env(self) -> dict[str, str]:
        """Of every process, and of whoever is on call."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
        return ours | {
            "ATF_REDIS_URL": self.store.url,
            "ATF_FRONTEND": self.addresses["frontend"],
            "ATF_HSC": self.addresses["hsc"],
            "ATF_CONFIG": str(self.folder / "atf.toml"),
            "ATF_RETENTION_MEMORY": "1",  # this shop keeps results for as long as it promised
            "DRILL_WORLD": str(self.world),
        }

    @property
    def targets(self) -> dict[str, list[str]]:
        """Addresses of metrics by role."""
        return {name: [self.metrics[name]] for name in _ROLES} | {"controller": [self.metrics[name] for name in HOSTS]}

    async def start(self) -> None:
        (self.folder / "atf.toml").touch()
        await self.store.start()
        for name in _ROLES:
            self._roles.append(self._process(name, name, ["--stop-delay", "0"] if name == "hsc" else [], self.env))
            await self._roles[-1].start()
        await register_apps([_APP], self.addresses["frontend"], self._app_env())
        for name in HOSTS:
            await self.start_host(name)

    async def start_host(self, name: str) -> None:
        """A machine of this name, fresh, with the release that is current."""
        flags = ["--executors", "1", "--threads", "3", _APP]
        process = self._process(name, "controller", flags, self._app_env())
        await process.start()
        self.hosts[name] = process

    def kill_host(self, name: str) -> None:
        """As if somebody had pulled its plug."""
        process = self.hosts.pop(name)
        pids = [process.pid, *descendants(process.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)

    async def deploy(self, release: int) -> None:
        """Host after host ends in order and starts again with another release."""
        self.release = release
        for name in list(self.hosts):
            await self.hosts[name].stop(_GRACE)
            await self.start_host(name)

    async def stop(self) -> None:
        await asyncio.gather(*(each.stop(_GRACE) for each in self.hosts.values()))
        for role in reversed(self._roles):
            await role.stop(5)
        await self.store.stop(5)
        self.store.data.release()

    def _app_env(self) -> dict[str, str]:
        return self.env | {"PYTHONPATH": str(self.releases / str(self.release))}

    def _process(self, name: str, role: str, flags: Sequence[str], env: dict[str, str]) -> RoleProcess:
        listen = ["--listen", self.addresses[name], "--metrics-listen", self.metrics[name]]
        command = [sys.executable, "-P", "-m", "atf.cli", role, *listen, *flags]
        log = (self.folder / "logs" / f"{name}.log").open("a", encoding="utf-8")
        print(shlex.join(command), file=log, flush=True)
        return RoleProcess(name, lambda _: command, env, lambda _, line: print(line, file=log, flush=True), patience=60)


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
