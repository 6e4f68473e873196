"""`atf executor`: this process becomes the guard of one worker, and ends with it.

A controller starts it by `python -m atf.executor.main`, with every setting spelled out: without the command line's library and an event
loop a guard takes a third less memory.

Starts the worker in a session of its own, with the table of what it holds and a pipe that ends if the guard does; has it watched
(guarding/guard.py); and tells a controller what became of it. The worker's own process is worker_main.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, Final, TypeVar

from atf.config.settings import ExecutorSettings, LogSettings, SecuritySettings, Timing
from atf.errors import AtfError
from atf.exits import EXIT_OK, EXIT_UNAVAILABLE, READY_FD
from atf.process.clocks import SystemClocks
from atf.process.descriptors import error_text
from atf.process.forks import FORK_SUPPORT
from atf.process.hidden import hide_memory
from atf.process.other_user import user_of
from atf.process.stops import stop_signals
from atf.process.streams import protect

from .guarding.by_hand import secret_by_hand
from .guarding.group import Group
from .guarding.guard import Guard
from .guarding.relay import Relay, say
from .guarding.stand_by import StandBy
from .guarding.start_notes import StartNotes
from .guarding.worker_end import DEATH_CLAIMS, death
from .table import SPARE_SLOTS, Table, memory_file

S = TypeVar("S", ExecutorSettings, Timing, LogSettings, SecuritySettings)

_LAST_LINES_S: Final = 0.5
"""Seconds that a dead worker's last lines have."""


def main(
    settings: ExecutorSettings,
    timing: Timing,
    logs: LogSettings,
    security: SecuritySettings,
    apps: Sequence[str],
    events_fd: int | None = None,
    stand_by: bool = False,
    secret_fd: int | None = None,
) -> int:
    """Guards one worker for its whole life.

    Args:
        settings, timing, logs, security: the worker's too; it gets them in its environment.
        apps: MODULE:APP, whose lambdas it runs.
        events_fd: where to write what happens to it, as lines of JSON; given by a controller, whose end is the end of stdin.
        stand_by: have it load its apps at the controller's word only.
        secret_fd: where the worker reads what it shows to its controller; given by that.

    Returns:
        The worker's exit code, see atf/exits.py; 128 + n if signal n ended it.
    """
    executor_id = f"{os.uname().nodename.split('.')[0][:24]}-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        user = user_of(settings.executor_user)
        secrets = _secrets(executor_id, settings, security, events_fd, secret_fd)
    except AtfError as error:
        say(logs, str(error))
        return EXIT_UNAVAILABLE
    memory = memory_file(settings.threads + settings.async_tasks + SPARE_SLOTS)
    table, notes = Table.mapped(memory), StartNotes.new()
    signals = _catch_signals()
    lifeline, ours = os.pipe()
    ready = [int(os.environ[READY_FD])] if os.environ.get(READY_FD) else []
    descriptors = [memory, lifeline, notes.descriptor]
    waiting = StandBy() if stand_by and events_fd is not None else None
    said = [executor_id, *map(str, descriptors), *(map(str, secrets or "-"))]
    command = [sys.executable, "-P", "-m", "atf.executor.worker_main", *said, *apps]
    relay, keep = Relay(), [*descriptors, *secrets, *ready, *([waiting.descriptor] if waiting else [])]
    try:
        env = _environment(settings, timing, _for_pipe(logs), replace(security, token_file=""))
        env = {**env, **(waiting.env if waiting else {}), **(user.environment if user else {})}
        says = partial(say, logs, executor=executor_id)
        group = Group(command, env=env, keep=keep, output=relay.ends, says=says, user=user)
    except OSError as error:
        say(logs, f"the worker can't be started: {error_text(error)}")
        return EXIT_UNAVAILABLE
    for descriptor in (memory, lifeline, *secrets, *ready):
        os.close(descriptor)
    relay.start()
    if waiting is not None and not waiting.over(group, signals):
        group.kill()
        return EXIT_OK
    _tell(events_fd, {"event": "started", "executor": executor_id, "pid": group.pid})

    def drains(why: str, started: int) -> None:
        _tell(events_fd, {"event": "draining", "executor": executor_id, "why": why, "started": started})

    def slow(why: str) -> None:
        if events_fd is None:  # else the controller says so
            say(logs, f"executor starts slowly: {why}", executor=executor_id)
        _tell(events_fd, {"event": "slow", "executor": executor_id, "why": why})

    # The worker learns that it shall drain from its end of the pipe, whatever its lambdas do with signals.
    guard = Guard(
        group,
        table,
        partial(os.close, ours),
        drains=drains,
        notes=notes,
        slow=slow,
        settings=settings,
        timing=timing,
        clocks=SystemClocks(),
    )
    ended = guard.watch(signals, None if events_fd is None else 0)
    told = death(executor_id, group.pid, ended, table)
    if ended.code != EXIT_OK and (events_fd is None or not ended.failed_start):  # of which the controller tells
        held = ", ".join(f"{each} {len(told[each])}" for each in DEATH_CLAIMS if told[each])
        say(logs, f"{ended.why} (exit code {ended.code}{held and f'; {held}'})", executor=executor_id)
    _tell(events_fd, told)
    relay.finish(_LAST_LINES_S)
    return ended.code


def _secrets(
    executor_id: str,
    settings: ExecutorSettings,
    security: SecuritySettings,
    events_fd: int | None,
    secret_fd: int | None,
) -> list[int]:
    """Where the worker reads what it shows to its controller; none: it shows nothing."""
    if events_fd is None:
        secret_fd = secret_by_hand(executor_id, settings, security)
    if secret_fd is None:
        return []
    hide_memory()  # what the worker holds is known here, too
    return [secret_fd]


def _for_pipe(logs: LogSettings) -> LogSettings:
    """The form of the worker's lines: it can't see itself whether they go to a terminal."""
    return replace(logs, log_format="console") if logs.log_format == "auto" and sys.stderr.isatty() else logs


def _environment(*settings: ExecutorSettings | Timing | LogSettings | SecuritySettings) -> Mapping[str, str]:
    """Ours, with every setting spelled out, wherever it came from; and what the worker's gRPC must know before it is loaded."""
    spelled = {
        f"ATF_{each.name.upper()}": str(getattr(group, each.name)) for group in settings for each in fields(group)
    }
    return {**os.environ, **spelled, FORK_SUPPORT: "0"}


def _catch_signals() -> int:
    """The descriptor that from now on carries the numbers of signals; SIGCHLD, too, so that an end is seen at once."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (*stop_signals(), signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    return read_end


def _tell(descriptor: int | None, event: Mapping[str, Any]) -> None:
    if descriptor is None:
        return
    line = memoryview((json.dumps(event, separators=(",", ":")) + "\n").encode())
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    except OSError:
        pass  # the controller is gone; the leases will end by themselves


def _started_by_controller(words: Sequence[str]) -> int:
    """As `atf executor` with these words, which the controller has made (controller/guards.py); returns the exit code."""
    apps, given, left = [], {}, iter(words)
    for word in left:
        if word == "--stand-by":
            given[word] = ""
        elif word.startswith("--"):
            given[word] = next(left)
        else:
            apps.append(word)
    settings = _spelled(ExecutorSettings, given), _spelled(Timing, given), _spelled(LogSettings, given)
    security, secret_fd = _spelled(SecuritySettings, given), given.get("--secret-fd")
    events_fd, secret = int(given["--events-fd"]), None if secret_fd is None else int(secret_fd)
    return main(*settings, security, apps, events_fd, "--stand-by" in given, secret)


def _spelled(kind: type[S], given: Mapping[str, str]) -> S:
    """Settings of which all are given, as text."""
    values: dict[str, Any] = {}
    for each in fields(kind):
        form: Any = type(each.default)
        text = given[f"--{each.name.replace('_', '-')}"]
        values[each.name] = text == str(True) if form is bool else form(text)
    return kind(**values)


if __name__ == "__main__":
    protect()
    sys.exit(_started_by_controller(sys.argv[1:]))
