"""Runs every role on this machine, with a task store: for `atf up`, `atf demo` and the process tests.

It owns the order of start and end, the addresses, and the choice of the store. Keeping a process alive is supervisor.py's part.
A role is a process of its own. In a compact cluster a role's name stands for the process that does its work: `atf server` or `atf worker`.

    async with Cluster(ClusterSettings(executors=2), ["shop:app"]) as cluster:
        client = atf.Client(cluster.frontend_address)
        cluster.kill("hsc")                     # it comes back
        cluster.executors()                     # [ExecutorPids(guard=…, worker=…), …]
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from atf.config.loading import load
from atf.config.settings import ExecutorSettings
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.errors import AtfError
from atf.exits import EXIT_UNAVAILABLE

from .cluster_settings import ClusterSettings, as_flags
from .loaded_files import loaded_files
from .ports import COMPACT, ROLES, free_if_taken, metrics_if_taken
from .processes import ExecutorPids, executors_of
from .role_process import READY_TIMEOUT, EndedEarly, RoleProcess, Say, all_or_none, how_it_ended, register_apps
from .supervisor import STEADY_AFTER, Supervisor
from .watch import Watch

_FINAL: Final = dict.fromkeys(("controller", "worker"), frozenset({EXIT_UNAVAILABLE}))
"""Exit codes after which a role is not started again: a controller has tried for itself, start_retries times."""
_AT_ONCE: Final = ["--stop-delay", "0"]
"""Of an HSC: it is asked to end when the executors have ended."""
_WITHOUT_STORE: Final = {"controller", "worker", "ui"}
"""Roles that don't know the task store, nor its password."""
_STOP_GRACE: Final = 10.0
"""Seconds a role gets to end in order; a controller gets its executors' drain_timeout more."""


class Cluster:
    """Every role, and the task store if it is embedded.

    Args:
        settings: what to run.
        apps: where the lambdas are, "module:app" each.
        env: the processes' environment; default ours. ATF_* variables and atf.toml apply to every role.
        say: takes a process's name and a line of it or about it; default: silence.
        steady_after: seconds of life after which a role's end counts as its first again: its next start does not wait for longer.
        ui: whether to serve the pages for people, too.
        spares: executors that stand by, for code that changes.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        apps: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        say: Say = lambda _name, _line: None,
        steady_after: float = STEADY_AFTER,
        ui: bool = False,
        spares: int = 0,
    ) -> None:
        self.settings, self.apps, self._say, self._ui, self._spares = settings, list(apps), say, ui, spares
        ours = os.environ if env is None else env
        self._env = {name: value for name, value in ours.items() if name != "ATF_LISTEN"}
        self._supervisor = Supervisor(say, steady_after=steady_after)
        self._roles: dict[str, RoleProcess] = {}
        self._compact: Mapping[str, str] = COMPACT if settings.compact else {}
        self._data: DataDir | None = None
        self.partitions = settings.partitions
        """Of the store's keys; 0: as the roles are set, or what is on record."""
        self.redis_url = settings.redis_url
        self.store = ""
        """The task store that was chosen, for people."""

    async def start(self) -> None:
        """Starts the store, then the roles, and returns when all are ready.

        Raises:
            AtfError: one of them can't start; what had started has been ended again.
        """
        try:
            await self._start_store()
            # Not as a flag: everybody on this machine may read command lines, and it may hold a password.
            self._env["ATF_REDIS_URL"] = self.redis_url
            shared = as_flags(partitions=self.partitions, durability=self.settings.durability)
            await all_or_none([self._start_role(name, [*shared, *flags]) for name, flags in self._first().items()])
            last = self._start_role(self._process("controller"), self._controller_flags(), self.apps)
            apart = self._ui and not self._compact
            pages = [self._start_role("ui", ["--frontend", self.frontend_address])] if apart else []
            await all_or_none([register_apps(self.apps, self.frontend_address, self._env_of_code), last, *pages])
        except BaseException:
            await self.stop(grace=1.0)
            raise
        if self._data is not None:
            where = {"pid": os.getpid(), "redis_url": self.redis_url, "partitions": self.partitions}
            try:
                self._data.announce({**where, "roles": self.addresses})
            except OSError as error:
                then = "Everything is up; `atf store` and `atf doctor` can't find it there"
                self._say("atf", f"{self._data.path}/up.json: {error.strerror}. {then}")

    async def stop(self, grace: float | None = None) -> None:
        """Ends everything in order: the controller first, so that executors finish what they have started, the store last.

        Args:
            grace: seconds each role gets; default: what it needs to drain.
        """
        for name in reversed(self._supervisor.names):
            await self._supervisor.stop(name, self._grace(name) if grace is None else grace)
        if self._data is not None:
            self._data.release()

    def kill_all(self) -> None:
        """Ends everything at once, executors included. A `stop` that waits returns soon after."""
        for executor in self.executors():
            for pid in executor:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._supervisor.kill_all()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- looking and meddling ---

    @property
    def names(self) -> list[str]:
        """The processes kept alive: "store" if it is embedded, and the roles."""
        return self._supervisor.names

    @property
    def addresses(self) -> dict[str, str]:
        """host:port by role."""
        return {name: self._roles[self._process(name)].address for name in ROLES if self._process(name) in self._roles}

    @property
    def processes(self) -> dict[str, str]:
        """host:port by process, of those with a role."""
        return {name: role.address for name, role in self._roles.items() if name != "ui"}

    @property
    def ui_address(self) -> str:
        """host:port of the pages for people; empty: they are not served."""
        if self._compact:
            return self._roles["server"].pages
        return self._roles["ui"].address if "ui" in self._roles else ""

    @property
    def frontend_address(self) -> str:
        return self._roles[self._process("frontend")].address

    @property
    def metrics(self) -> dict[str, str]:
        """host:port of each process's metrics, of those that serve them."""
        return {name: role.metrics for name, role in self._roles.items() if role.metrics}

    @property
    def dapr_http(self) -> str:
        """host:port of the frontend's HTTP port for Dapr's clients; empty: it has none."""
        return self._roles[self._process("frontend")].dapr_http

    def pid(self, name: str) -> int:
        """The process of "store" or of a role; 0 while none runs."""
        return self._supervisor.pid(self._process(name))

    def restarts(self, name: str) -> int:
        """How often a process was started again."""
        return self._supervisor.restarts[self._process(name)]

    async def gave_up(self) -> str:
        """Waits until a role has ended that is not started again; what it was, as a sentence."""
        await self._supervisor.gave_up.wait()
        name, code = self._supervisor.final_end
        return f"{name} {how_it_ended(code)}"

    def executors(self) -> list[ExecutorPids]:
        """The executors of the controller, each a guard and its worker, that run now."""
        controller = self.pid("controller") if self._process("controller") in self.names else 0
        return executors_of(controller) if controller else []

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Signals the process of "store" or of a role, as an accident would; it is started again. Returns the pid."""
        pid = self.pid(name)
        self._supervisor.signal(self._process(name), number)
        return pid

    def replace_executors(self) -> None:
        """Has the controller start executors anew, with the code as it is now; those from before finish what they have started."""
        self._supervisor.signal(self._process("controller"), signal.SIGUSR1)

    async def watch(self, folder: Path) -> None:
        """Replaces executors whenever a file below a folder has changed that they load; until it is cancelled."""
        await Watch(
            folder, lambda: loaded_files(self.apps, folder, self._env_of_code), self.replace_executors, self._say
        ).run()

    async def halt(self, name: str) -> None:
        """Ends a role in order, and keeps it from being started again until `resume`."""
        await self._supervisor.stop(self._process(name), self._grace(self._process(name)))

    async def resume(self, name: str) -> None:
        """Starts a role again that was halted, at the address that it had.

        Raises:
            AtfError: it can't start.
        """
        name = self._process(name)
        await self._supervisor.start(self._roles[name], final=_FINAL.get(name, ()))

    @property
    def _env_of_code(self) -> dict[str, str]:
        """The environment of processes that load the code of users, or know no store: without its password."""
        return {name: value for name, value in self._env.items() if name != "ATF_REDIS_URL"}

    def _process(self, name: str) -> str:
        """The process that does a role's work."""
        return self._compact.get(name, name)

    # --- starting ---

    async def _start_store(self) -> None:
        """Starts the embedded store, unless another one was named."""
        if self.settings.redis_url:
            from atf.store.servers.address import safe_url

            self.store = safe_url(self.settings.redis_url)
            return
        binary = find_binary(self.settings.store_bin, search_path=self._env.get("PATH"))
        data = DataDir(Path(self.settings.data_dir))
        data.lock()
        self._data = data
        store = EmbeddedStore(
            binary, data, durability=self.settings.durability or "disk", maxmemory_mib=self.settings.maxmemory_mib
        )
        self.redis_url, self.store = store.url, f"{binary}, data in {data.path}"
        await self._supervisor.start(store)

    def _first(self) -> dict[str, list[str]]:
        """The processes that workers need, with their flags."""
        if not self._compact:
            return {"hsc": _AT_ONCE, "frontend": [], "store-consumer": []}
        free = self.settings.free_ports
        pages = free_if_taken("server", free, self._env, self._say, "ui_listen") if self._ui else "none"
        return {"server": [*_AT_ONCE, "--ui-listen", pages]}

    async def _start_role(self, name: str, flags: Sequence[str], arguments: Sequence[str] = ()) -> None:
        listen, metrics = self._chosen_ports(name)
        program = [sys.executable, "-P", "-m", "atf.cli", name]

        def command(before: str) -> list[str]:
            of_metrics = ["--metrics-listen", role.metrics or metrics] if metrics else []
            of_pages = ["--ui-listen", role.pages] if role.pages else []
            return [*program, "--listen", before or listen, *of_metrics, *flags, *of_pages, *arguments]

        final = _FINAL.get(name, ())
        # A controller is ready when its executors are, which import code that may take its time.
        patience = None if name == self._process("controller") else READY_TIMEOUT
        env = self._env_of_code if name in _WITHOUT_STORE else dict(self._env)
        self._roles[name] = role = RoleProcess(name, command, env, self._say, patience=patience)
        try:
            await self._supervisor.start(role, final=final)
        except EndedEarly:
            tried = listen, metrics
            listen, metrics = self._chosen_ports(name)
            if (listen, metrics) == tried:
                raise
            await self._supervisor.start(
                role, final=final
            )  # another process took a port between our look and the role's

    def _chosen_ports(self, name: str) -> tuple[str, str]:
        """Where a role is to listen, and where it is to serve its metrics; the pages serve their own."""
        listen = free_if_taken(name, self.settings.free_ports, self._env, self._say)
        return listen, "" if name == "ui" else metrics_if_taken(name, listen, self._env, self._say)

    def _controller_flags(self) -> list[str]:
        settings = self.settings
        more = {"threads": settings.threads, "http_allow": settings.http_allow, "command_allow": settings.command_allow}
        addresses = {name: self._roles[self._process(name)].address for name in ("hsc", "frontend")}
        return as_flags(executors=settings.executors, spares=self._spares, **more, **addresses)

    def _grace(self, name: str) -> float:
        """Seconds that a process needs to end in order."""
        if name != self._process("controller"):
            return _STOP_GRACE
        try:
            return _STOP_GRACE + load(ExecutorSettings, table="executor", env=self._env).drain_timeout
        except AtfError:
            return _STOP_GRACE + ExecutorSettings().drain_timeout  # the roles have said what is wrong with the settings
