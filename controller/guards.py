"""Starts the guard processes of executors, carries their lines, and reads what these say.

Each guard gets a pipe as its stdin, which carries this process's word and ends with it: then its executor finishes what it holds and
ends. The word is no signal, since a guard that a service manager has signalled too would take that for a second one (atf/process/stops.py). A
guard is in a session of its own, so that a terminal's Ctrl-C reaches the controller alone, which ends its executors in order.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Final, NamedTuple

from atf.config.settings import ControllerSettings, ExecutorSettings, LogSettings, SecuritySettings, Timing
from atf.errors import AtfError
from atf.log import get_logger
from atf.process.hidden import pipe_with
from atf.process.stops import AT_ONCE, BEGIN, DRAIN
from atf.runtime import Runtime
from atf.task import clip

from .losses import Death, parse_death

MAX_LINE_BYTES: Final = 16 << 20
"""Of one line of a guard: all that an executor held, at about 200 bytes each."""
LAST_LINES_S: Final = 2.0
"""Seconds that lines may take to arrive after a guard's end; longer only if a descendant holds its pipe."""

_log = get_logger(duty="pool")


def command(
    apps: Sequence[str],
    controller: str,
    settings: ControllerSettings,
    executor: ExecutorSettings,
    timing: Timing,
    logs: LogSettings,
    security: SecuritySettings,
) -> list[str]:
    """The command line of an executor's guard. Every setting is spelled out: an executor must have its controller's.

    Args:
        apps: MODULE:APP, whose lambdas it runs.
        controller: the address at which this controller listens.
        settings: of the controller: where the other roles are.
        executor: what each executor is to be like.
        timing: how long leases last, for all processes the same.
        logs: what it says.
        security: how its channels are made.
    """
    executor = replace(executor, controller=controller, hsc=settings.hsc, frontend=settings.frontend)
    line = [sys.executable, "-P", "-m", "atf.executor.main", *apps]
    for group in (executor, timing, logs, security):
        for each in fields(group):
            line += [f"--{each.name.replace('_', '-')}", str(getattr(group, each.name))]
    return line


class GuardProcess:
    """A running guard. See pool.ExecutorGuard."""

    def __init__(self, process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
        self.pid = process.pid
        self._process = process
        self._reading = reading

    async def wait(self) -> int:
        """Its exit code, once its last lines have arrived."""
        code = await self._process.wait()
        await asyncio.wait({self._reading}, timeout=LAST_LINES_S)
        self._reading.cancel()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def begin(self) -> None:
        """Tells one that stands by to start its executor."""
        self._say(BEGIN)

    def drain(self) -> None:
        """Tells it to let its executor finish what it has started."""
        self._say(DRAIN)

    def end_at_once(self) -> None:
        """Tells it to kill its executor."""
        self._say(AT_ONCE)

    def _say(self, word: bytes) -> None:
        pipe = self._process.stdin
        if pipe is not None and not pipe.is_closing():  # else it has just ended
            pipe.write(word)


async def start_guard(
    line: Sequence[str], on_line: Callable[[str], None], runtime: Runtime, secret: str = ""
) -> GuardProcess:
    """Starts a guard.

    Args:
        line: its command line.
        on_line: takes each line that it writes about its executor.
        runtime: spawns the reader.
        secret: what its executor shows here first; empty: it need not.

    Raises:
        OSError: the process can't be started.
    """
    read_end, write_end = os.pipe()
    theirs = {"--events-fd": write_end, **({"--secret-fd": pipe_with(secret)} if secret else {})}
    try:
        process = await asyncio.create_subprocess_exec(
            *line,
            *(word for name, descriptor in theirs.items() for word in (name, str(descriptor))),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=tuple(theirs.values()),
            start_new_session=True,
        )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        for each in theirs.values():
            os.close(each)
    return GuardProcess(process, runtime.spawn(_read(read_end, on_line), name=f"lines of guard {process.pid}"))


async def _read(descriptor: int, on_line: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while line := await reader.readline():
            on_line(line.decode("utf-8", "replace"))
    finally:
        transport.close()


class Started(NamedTuple):
    """A guard says that its executor has started."""

    executor_id: str


class Drains(NamedTuple):
    """A guard says that its executor drains, and how many tasks it had started then."""

    running: int


class Slow(NamedTuple):
    """A guard says where its executor stands, whose start takes long."""

    why: str


def event_of(line: str) -> Started | Slow | Drains | Death | None:
    """What a guard says; None: what can't be read."""
    try:
        event = json.loads(line)
        match event["event"]:
            case "started":
                _log.info("executor started", executor=event["executor"], worker=event["pid"])
                return Started(str(event["executor"]))
            case "slow":
                return Slow(clip(str(event["why"])))
            case "draining":
                _log.info("executor draining", executor=event["executor"], why=event["why"])
                return Drains(int(event["started"]))
            case "dead":
                return parse_death(event)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, AtfError) as error:
        # Not what it said: that may hold tokens.
        _log.error("a guard said what can't be read", error=type(error).__name__, characters=len(line))
    return None
