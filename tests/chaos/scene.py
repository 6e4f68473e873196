"""A laboratory with a store, roles and loads on its hosts, and what came of it: the frame of every row that cuts links.

It owns the order of start and end, the watch over processes, and the judgement. What is cut or killed is the rows' matter.
"""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from atf.config import Timing
from atf.embedded.child import Child
from atf.verify.history import Accepted, Began, Called, Ended, Event, Gone, Judgement, check

from . import diary
from .lab import Host, Lab
from .roles import Roles, environment

APP: Final = "tests.chaos.diary:app"
KEEP: Final = "ATF_LAB_KEEP"
"""Where this variable is set, all that a scene wrote is kept: the stores' logs, the diary, the words of roles and loads."""
SETTLE_S: Final = 180.0
"""Seconds that all tasks get to finish after the last accident."""
_LOOK_MS: Final = 20


class Store(Protocol):
    """A task store of stores.py."""

    @property
    def url(self) -> str: ...
    async def start(self) -> None: ...


class Watch:
    """Notes when processes end that write in the diary, by the kernel's word."""

    def __init__(self, folder: Path) -> None:
        self.gone: list[Gone] = []
        self._folder, self._seen = folder, set[str]()
        self._files: dict[int, str] = {}
        self._poll = select.poll()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the watch."""
        self._stop.set()
        self._thread.join()
        while self._files:
            os.close(self._files.popitem()[0])

    def _run(self) -> None:
        while not self._stop.is_set():
            for name in sorted({each.name for each in self._folder.iterdir()} - self._seen):
                self._seen.add(name)
                try:
                    file = os.pidfd_open(int(name.partition("-")[0]))
                except ProcessLookupError:
                    self._note(name)
                else:
                    self._files[file] = name
                    self._poll.register(file, select.POLLIN)
            for file, _ in self._poll.poll(_LOOK_MS):
                self._note(self._files.pop(file))
                self._poll.unregister(file)
                os.close(file)

    def _note(self, process: str) -> None:
        self.gone.append(Gone(time.monotonic_ns() // 1000, process))


@dataclass(slots=True)
class Story:
    """What came of a scene.

    Attributes:
        judgement: of the history checker.
        longest_wait_s: seconds from a Schedule call to its acceptance, at most, by the prefix of its load.
        notes: what the row measured beside.
        troubles: what did not go as it should, a sentence each.
    """

    judgement: Judgement = field(default_factory=Judgement)
    longest_wait_s: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)


class Scene:
    """A lab, and what runs in it.

        async with Scene(timing) as scene:
            store = SentinelStore([scene.lab.host(name) for name in "abc"], scene.folder)
            await scene.begin(store, [scene.lab.host("r")], durability="replicated")
            ...
            story = await scene.judge()

    Args:
        timing: of all roles.
    """

    def __init__(self, timing: Timing | None = None) -> None:
        self.timing = timing or Timing()
        self.roles: dict[str, Roles] = {}
        self.story = Story()
        self.folder = Path(tempfile.mkdtemp(prefix="atf-lab-"))
        self.diary = self.folder / "diary"
        self.diary.mkdir()
        self.lab = Lab()
        self._watch = Watch(self.diary)
        self._reader = diary.Reader(self.diary)
        self._loads: dict[str, Child] = {}
        self.said: dict[str, list[str]] = {}

    async def begin(
        self,
        store: Store,
        hosts: Sequence[Host],
        *,
        durability: str = "",
        rate: float = 20,
        seconds: float = 0.5,
        executors: int = 2,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the store, then every role and a load on each of these hosts; returns when tasks have run in all executors.

        Args:
            store: the task store.
            hosts: where roles and loads are.
            durability: of every task and every claim; "": the roles' default.
            rate: tasks a second and load.
            seconds: that a task takes.
            executors: on each host.
            variables: more of the environment of the roles.
        """
        await store.start()
        timing = {f"ATF_{name.upper()}": str(getattr(self.timing, name)) for name in Timing.__dataclass_fields__}
        floor = {"ATF_DURABILITY": durability} if durability else {}
        env = environment(self.folder, **timing, **floor, **(variables or {}), **{diary.FOLDER: str(self.diary)})
        for host in hosts:
            roles = Roles(host, store.url, [APP], env, ["--executors", str(executors)])
            await roles.start()
            self.roles[host.name] = roles
            self._start_load(host, ["--rate", str(rate), "--seconds", str(seconds)], env)
        for host in hosts:
            await self.works(host.name, executors)

    async def works(self, host: str, executors: int = 1, seconds: float = 60.0) -> float:
        """Waits until so many executors of a host have begun tasks after now; the seconds that took.

        Raises:
            TimeoutError: they have not.
        """
        began = time.monotonic()
        async with asyncio.timeout(seconds):
            while True:
                busy = {diary.pid_of(each.process) for each in self.begun(began)} & self.workers(host)
                if len(busy) >= executors:
                    return time.monotonic() - began
                await asyncio.sleep(0.2)

    def begun(self, since: float) -> list[Began]:
        """The runs that began after an instant (monotonic, seconds)."""
        return [each for each in self._events() if isinstance(each, Began) and each.at_us >= since * 1e6]

    def waits(self, since: float, *prefixes: str) -> dict[str, float]:
        """The longest wait, in seconds, for the acceptance of a task that was called for after an instant; by load.

        A call that has not been answered waits until now.
        """
        waits: dict[str, float] = dict.fromkeys(prefixes or self.roles, 0.0)
        called: dict[str, int] = {}
        now_us = time.monotonic_ns() // 1000
        for each in self._events():
            if isinstance(each, Called) and each.at_us >= since * 1e6:
                called[each.task_id] = each.at_us
        answered = {each.task_id: each.at_us for each in self._events() if isinstance(each, Accepted)}
        for key, at_us in called.items():
            prefix = key.rpartition("-")[0]
            if prefix in waits:
                waits[prefix] = max(waits[prefix], (answered.get(key, now_us) - at_us) / 1e6)
        return waits

    def busy(self) -> set[int]:
        """The processes in which runs have begun and not ended."""
        began = {(each.process, each.task_id, each.fence) for each in self._events() if isinstance(each, Began)}
        ended = {(each.process, each.task_id, each.fence) for each in self._events() if isinstance(each, Ended)}
        return {diary.pid_of(process) for process, _, _ in began - ended}

    def workers(self, host: str) -> set[int]:
        """The executors' workers that live on a host."""
        return {each.worker for each in self.roles[host].executors()}

    async def judge(self) -> Story:
        """Stops the loads, lets all tasks finish, and judges the history."""
        for each in self._loads.values():
            os.kill(each.pid, 15)
        for name, each in self._loads.items():
            try:
                code = await asyncio.wait_for(each.wait(), SETTLE_S + 60)
            except TimeoutError:
                code = None
            if code != 0:
                last = "\n".join(self.said[name][-5:])
                self.story.troubles.append(f"the load on {name} did not conclude ({code}): {last}")
        for roles in self.roles.values():
            await roles.stop()
        self._watch.close()
        events = [*self._events(), *self._watch.gone]
        self.story.judgement = check(events)
        self.story.longest_wait_s = self.waits(0)
        return self.story

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.lab.close()
        self._watch.close()
        if KEEP not in os.environ:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for name, lines in {**self.said, **{f"{name}-roles": each.said for name, each in self.roles.items()}}.items():
            (self.folder / f"{name}.log").write_text("\n".join(lines), "utf-8")
        print(f"kept: {self.folder}")

    def _start_load(self, host: Host, flags: list[str], env: Mapping[str, str]) -> None:
        said = self.said.setdefault(host.name, [])
        command = [sys.executable, "-P", "-m", "tests.chaos.load", host.name, "--settle", str(SETTLE_S), *flags]
        with host.inside():
            self._loads[host.name] = Child(command, env=env, on_line=said.append)

    def _events(self) -> list[Event]:
        return self._reader.poll()
