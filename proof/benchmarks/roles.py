"""The processes of a system: what runs its tasks, and its clients. Ours stand in ours.py; which store they use is world.py's matter."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from typing import Any, Final, Protocol, Self

from atf.bench import proc
from atf.embedded.child import Child
from atf.errors import AtfError

from .known import System

UP_S: Final = 60.0
"""Seconds that everything gets to be up."""
GRACE_S: Final = 5.0
"""Seconds that a process gets to end in order."""
LOOK_S: Final = 0.02
"""Seconds between two looks at what is waited for."""
_LONGEST_ANSWER: Final = 64 << 20


class BenchError(AtfError):
    """A measurement could not be done; the text says why."""


class BenchmarkRoles(Protocol):
    """The part of a system that runs tasks."""

    async def start(self, workers: bool) -> None: ...

    async def start_workers(self) -> None: ...

    async def kill_one(self) -> str:
        """SIGKILL to the busiest worker with all its processes; somebody starts it again. Returns what was killed."""
        ...

    async def stop(self) -> None: ...

    def pids(self) -> dict[str, list[int]]: ...

    @property
    def client_envs(self) -> list[dict[str, str]]:
        """More variables of each of the clients."""
        ...


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
        kill_all(pids)
        await victim.wait()
        self._children[place] = self._start(place)
        return f"worker: processes {' '.join(map(str, pids))}"

    async def stop(self) -> None:
        await asyncio.gather(*(_end(each) for each in self._children))

    def pids(self) -> dict[str, list[int]]:
        return {"workers": [pid for each in self._children for pid in proc.of_session(each.pid)]}

    @property
    def client_envs(self) -> list[dict[str, str]]:
        return [{}]


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def _end(child: Child) -> None:
    """Its tasks are of no interest any more: a second to end in order, then all of its processes are killed."""
    pids = proc.of_session(child.pid)
    await child.stop(1.0)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if pid in proc.of_session(child.pid):
                os.kill(pid, signal.SIGKILL)


class ClientProcess:
    """A client of a system: driver.py in that system's environment."""

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
