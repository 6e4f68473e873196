"""A laboratory with a store, roles and loads on its hosts, and what came of it: the frame of every row that cuts links.

It owns the order of start and end, and the judgement. What is cut or killed is the rows' matter.

    async with Scene(progress, timing) as scene:
        store = SentinelStore([scene.lab.host(name) for name in "abc"], scene.folder)
        await scene.begin(store, [scene.lab.host("r")], durability="replicated")
        scene.lab.cut("a")
        ...
        outcome = await scene.judge()
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Protocol, Self

from atf.config.settings import Timing
from atf.embedded.child import Child
from atf.errors import Unavailable
from atf.verify.events import Accepted, Began, Called, Ended, Event, Forgot, Found, Gone, Recorded
from atf.verify.lambdas import NAMESPACE
from atf.verify.load import Load, PlannedTask
from atf.verify.outcome import FinalRecord, LoadOutcome, judge
from atf.verify.record import DIRECTORY, VerifyRecord, events, now_us
from atf.verify.record_files import pid_of
from atf.verify.watch import ProcessWatch

from .bench import environment
from .frame import Progress
from .lab import Lab, LabHost
from .load import SETTLE_S, Heard
from .roles import ChaosRoles

APP: Final = "atf.verify.lambdas:app"
LOAD: Final = Load(rate=20, short_s=0.8, long_s=20, long_share=0.03, delayed_share=0.1)
"""Of each host with roles. Some tasks run for so long that they outlast a lease that nobody renews."""
RELAXED: Final = "-relaxed"
"""Ends the names of loads of class relaxed, and with them the prefix of their tasks' keys."""
_LOOK_S: Final = 0.05
_STOP_S: Final = 60.0


class SceneStore(Protocol):
    """A task store of stores.py."""

    @property
    def url(self) -> str: ...
    async def start(self) -> None: ...


@dataclass
class RunningLoad:
    """A load of load.py that was started.

    Attributes:
        process: it.
        heard: what it has written.
        what: what it does.
        seed: of its stream.
        said: its last lines.
    """

    process: Child
    heard: Heard
    what: Load
    seed: int
    said: list[str]


def is_relaxed(name: str) -> bool:
    """Whether a load, or a task by its key, is of class relaxed."""
    return name.rstrip("0123456789").removesuffix("-").endswith(RELAXED)


class Scene:
    """A lab, and what runs in it; all of it ends with the scene.

    Args:
        progress: is told where the logs are, if they are kept.
        timing: of all roles.
    """

    def __init__(self, progress: Progress, timing: Timing | None = None) -> None:
        self.timing = timing or Timing()
        self.roles: dict[str, ChaosRoles] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="atf-lab-"))
        self.lab = Lab()
        self.keep = False
        """Whether the logs of everybody are kept; set where a trial fails."""
        self.forgot: list[Forgot] = []
        """What the store may have lost of class relaxed, as guarantees.md has it; rows add to it."""
        self._progress = progress
        self.record = VerifyRecord(self.folder / "record")
        self.record.directory.mkdir()
        self.deaths = ProcessWatch()
        self.loads: dict[str, RunningLoad] = {}
        self._looking: asyncio.Task[None] | None = None

    async def begin(
        self,
        store: SceneStore,
        hosts: Sequence[LabHost],
        *,
        durability: str,
        executors: int = 2,
        load: Load = LOAD,
        relaxed: Load | None = None,
    ) -> None:
        """Starts the store, then every role and a load on each of these hosts; returns when all executors have run tasks.

        Args:
            store: the task store.
            hosts: where roles and loads are.
            durability: of every task and every claim; with `relaxed` of the tasks of `load` alone.
            executors: on each host.
            load: of each host.
            relaxed: a second load of each host, of class relaxed, whose losses are judged apart.
        """
        self._looking = asyncio.get_running_loop().create_task(self._look())
        await store.start()
        timing = {f"ATF_{each.name.upper()}": str(getattr(self.timing, each.name)) for each in fields(Timing)}
        ours = {
            DIRECTORY: str(self.record.directory),
            NAMESPACE: "lab",
            "ATF_DURABILITY": "relaxed" if relaxed else durability,
        }
        env = environment(self.folder, **timing, **ours)
        for host in hosts:
            roles = ChaosRoles(host, store.url, [APP], env, ["--executors", str(executors)])
            self.roles[host.name] = roles
            await roles.start()
            if relaxed is None:
                self._start_load(host, host.name, load, env)
            else:
                self._start_load(host, host.name, replace(load, options={"durability": durability}), env)
                self._start_load(host, f"{host.name}{RELAXED}", relaxed, env)
        for host in hosts:
            await self.works(host.name, executors)

    # --- looking ---

    async def works(self, host: str, executors: int = 1, seconds: float = 60.0) -> float:
        """Waits until so many executors of a host have begun runs after now; the seconds that took.

        Raises:
            TimeoutError: they have not.
        """
        began = time.monotonic()
        while len(self.began_in(began) & self.workers(host)) < executors:
            if time.monotonic() - began > seconds:
                raise TimeoutError(f"not within {seconds:g} s: tasks begin in {executors} executors on {host}")
            await asyncio.sleep(4 * _LOOK_S)
        return time.monotonic() - began

    def workers(self, *hosts: str) -> set[int]:
        """The executors' workers that live on these hosts."""
        return {each.worker for host in hosts for each in self.roles[host].executors()}

    def began_in(self, since: float) -> set[int]:
        """The processes in which runs began after an instant (monotonic, seconds)."""
        self.record.poll()
        return {pid_of(each.process) for each in self.record.begun if each.at_us >= since * 1e6}

    def claimed_after(self, wall_us: int, *hosts: str) -> float:
        """Seconds from an instant (µs, wall clock) until the first run began on these hosts that was claimed after it; inf: none has."""
        self.record.poll()
        there = self.workers(*hosts)
        found = [each.store_us for each in self.record.begun if each.fence > wall_us and pid_of(each.process) in there]
        return (min(found) - wall_us) / 1e6 if found else math.inf

    def at_work(self) -> set[int]:
        """The processes in which runs have begun and not ended."""
        self.record.poll()
        return {pid_of(process) for process, runs in self.record.running.items() if runs}

    def waited(self, since: float, *hosts: str) -> float:
        """Seconds that a Schedule call of these hosts' loads (default: all) took at most which was made after an instant.

        One that has not been answered takes until now. The client repeats what fails, so this is how long Schedule was away.
        """
        longest = 0
        for each in hosts or self.loads:
            heard = self.loads[each].heard
            heard.poll()
            for key, at_us in heard.called.items():
                if at_us >= since * 1e6:
                    longest = max(longest, heard.accepted.get(key, (now_us(), 0))[0] - at_us)
        return longest / 1e6

    # --- the end ---

    async def judge(self) -> tuple[LoadOutcome, LoadOutcome | None]:
        """Ends the loads, lets all tasks finish, and judges the history: of all tasks but those of class relaxed, and of these, if there are any.

        Raises:
            Unavailable: a load did not come to its end.
        """
        await concluded(self.loads)
        self._progress.say("all tasks have had their time; the roles are told to end")
        await asyncio.gather(*(each.stop(_STOP_S) for each in self.roles.values()))
        self.record.poll()
        relaxed = self.judged(relaxed=True) if any(map(is_relaxed, self.loads)) else None
        return self.judged(relaxed=False), relaxed

    def judged(self, *, relaxed: bool) -> LoadOutcome:
        history: list[Event] = [Gone(at_us, name) for name, at_us in self.deaths.all.items()]
        runs = (each for each in events(self.record) if isinstance(each, Began | Ended))
        history += (each for each in runs if is_relaxed(each.task_id) == relaxed)
        history += self.forgot if relaxed else []
        return judged({name: each for name, each in self.loads.items() if is_relaxed(name) == relaxed}, history)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self.lab.close()
        self.deaths.stop()
        if kind is None and not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        said = {f"{name}-roles": each.said for name, each in self.roles.items()}
        said |= {f"{name}-load": each.said for name, each in self.loads.items()}
        for name, lines in said.items():
            (self.folder / f"{name}.log").write_text("\n".join(lines), "utf-8")
        self._progress.say(f"all logs are in {self.folder}")

    def _start_load(self, host: LabHost, name: str, load: Load, env: dict[str, str]) -> None:
        with host.inside():
            self.loads[name] = start_load(self.folder, name, load, env)

    async def _look(self) -> None:
        """Puts every process that runs tasks under watch."""
        while True:
            self.record.poll()
            for process in self.record.processes:
                self.deaths.watch(process, pid_of(process))
                if self.deaths.died_us(process):
                    self.record.close(process)
            await asyncio.sleep(_LOOK_S)


def start_load(folder: Path, name: str, load: Load, env: Mapping[str, str]) -> RunningLoad:
    """A load that runs until `concluded`."""
    path, seed, said = folder / f"{name}-load.jsonl", random.getrandbits(32), list[str]()
    path.touch()
    words: list[Any] = [path, name, seed, json.dumps(asdict(load))]
    command = [sys.executable, "-P", "-m", "proof.chaos.load", *map(str, words)]
    return RunningLoad(Child(command, env=env, on_line=said.append), Heard(path), load, seed, said)


async def concluded(loads: Mapping[str, RunningLoad]) -> None:
    """Ends some loads; returns when all of their tasks have had the time to finish.

    Raises:
        Unavailable: one did not come to its end.
    """
    for each in loads.values():
        each.process.send(signal.SIGTERM)
    for name, each in loads.items():
        try:
            code = await asyncio.wait_for(each.process.wait(), 2 * SETTLE_S + _STOP_S)
        except TimeoutError:
            code = None
        if code != 0:
            raise Unavailable(f"the load {name} did not conclude ({code}): {' / '.join(each.said[-5:])}")


def judged(loads: Mapping[str, RunningLoad], history: list[Event]) -> LoadOutcome:
    """What came of loads that have concluded. Args: history: of their runs, and of the processes that have ended."""
    end = now_us()
    endings: dict[str, FinalRecord] = {}
    plans: dict[str, PlannedTask] = {}
    refused: Counter[str] = Counter()
    for name, each in loads.items():
        each.heard.poll()
        history += [Called(at_us, key) for key, at_us in each.heard.called.items()]
        history += [Accepted(at_us, key, due_us) for key, (at_us, due_us) in each.heard.accepted.items()]
        endings |= each.heard.endings
        plans |= {plan.key: plan for plan in each.heard.plans(each.what, each.seed, name)}
        refused.update(each.heard.refused)
    history += [
        Recorded(end, key, int(each.result)) for key, each in endings.items() if each.status == "SUCCESS"
    ]  # no claim can be younger than that
    for key in {each.task_id for each in history if isinstance(each, Called | Began)}:
        found = endings.get(key)
        history.append(Found(end + 1, key, found.status if found else "", found is not None and found.finished))
    return judge(history, endings, plans, refused=refused)
