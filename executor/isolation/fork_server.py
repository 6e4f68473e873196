"""Forks a process for each isolated run, from a small process that has imported the apps.

Started by the worker (runs.py) where a lambda has isolate=True, and ends with it:

    python -P -m atf.executor.isolation.fork_server CONTROL_FD NOTES_FD CREDENTIAL_FD MODULE:APP...

1. imports the apps and calls their start hooks, and refuses to serve where that leaves threads: they don't survive a fork
2. forks, kills and reaps the processes of runs, as the worker says; one is always forked ahead
3. kills what a run has left behind before it says that the run has ended

It has one thread and never loads gRPC: so a run may, for the calls that it makes itself.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import gc
import os
import select
import signal
import socket
import sys
import threading  # noqa: TID251  to name those that must not be there
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from atf.client.own_frontend import refuse_direct
from atf.config.loading import load
from atf.config.settings import ExecutorSettings, LogSettings, SecuritySettings
from atf.errors import AtfError, ConfigError
from atf.executor.credential import OfIsolatedRun
from atf.executor.guarding.group import adopt_orphans, children_of, die_with_parent
from atf.executor.guarding.start_notes import StartNotes
from atf.executor.output import capture as output
from atf.executor.output.log_handlers import take_logging
from atf.executor.worker_hooks import call_start_hooks
from atf.log import leave_structlog, setup
from atf.process.caller_token import token_of_process
from atf.process.forks import keep_signals_from_children
from atf.process.hidden import hide_memory
from atf.process.stops import stop_signals
from atf.process.streams import protect_without_threads
from atf.rpc.caller_security import use
from atf.sdk.lambdas import Lambda
from atf.sdk.loading import load_apps, load_lambdas

from . import process as isolated_run
from .packets import DESCRIPTORS, MAX_PACKET_BYTES, pack, pair, unpack

_AGAIN: Final = " once more, for isolated runs"
"""The worker has done it before."""
_STARTED_AGAIN: Final = ("OtelBatch", "OtelPeriodic")
"""How the threads of OpenTelemetry's SDK are named that send what was recorded: in a forked process it starts them again."""
_LOOKS: Final = 30
_LOOK_S: Final = 0.01
"""A thread that has ended is the system's for a moment more, and one may be about to end: so many looks, so far apart."""


def main(arguments: Sequence[str]) -> int:
    """Serves until the worker ends."""
    die_with_parent()
    refuse_direct()
    control, notes_fd, credential_fd, *apps = arguments
    connection, notes = socket.socket(fileno=int(control)), StartNotes(int(notes_fd))
    for descriptor in (int(control), int(notes_fd)):
        os.set_inheritable(descriptor, False)
    if credential_fd != "-":
        hide_memory()  # the runs, too, which are forked from here: lambdas of other executors may run as the same user
        os.set_inheritable(int(credential_fd), False)
        use(OfIsolatedRun(int(credential_fd), token_of_process(replace(load(SecuritySettings), token_file=""))))
    setup(load(LogSettings), "executor")
    wakeup = _catch_signals()
    if not faulthandler.is_enabled():  # a run that crashes says where, in lines of its own
        faulthandler.enable(2)
    try:
        output.capture()
        notes.watch(load(ExecutorSettings).start_timeout)
        notes.doing(f"importing {' '.join(apps)}{_AGAIN}")
        leave_structlog()
        lambdas = load_lambdas(apps)
        take_logging()
        isolated = {name: each for name, each in lambdas.items() if each.isolate}
        hooked = [app for app in load_apps(apps) if any(each.isolate for each in app.lambdas.values())]
        call_start_hooks(hooked, lambda what: notes.doing(what + _AGAIN))
        notes.imported()  # the watch is a thread
        check_threads(isolated, apps)
    except AtfError as error:
        connection.send(pack("refused", str(error)))
        return 0
    _catch_signals(wakeup)  # once more: what the apps import may have handlers of its own
    adopt_orphans()
    notes.close()  # not for the runs
    gc.collect()
    gc.freeze()  # a collection in a run would copy every page of what was imported
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # half a line that the imports printed must not stand in the buffers of every run
    connection.send(pack("ready"))
    ForkServer(isolated, connection).serve(wakeup)
    return 0


def check_threads(isolated: Mapping[str, Lambda[..., Any]], apps: Sequence[str]) -> None:
    """Raises ConfigError if threads run beside this one that a fork would leave out. Those that a library ends, or starts again, by itself at a fork don't count."""
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    looks = 1
    while (others := [each for each in _threads() if not each.startswith(_STARTED_AGAIN)]) and looks < _LOOKS:
        time.sleep(_LOOK_S)  # noqa: TID251  nothing else is to be done
        looks += 1
    if others:
        raise ConfigError(
            f"isolate=True of {', '.join(isolated)}: importing {', '.join(apps)}, or a start hook, starts threads, which an isolated run would not have:"
            f" {', '.join(others)}. Start them in the lambda, not before; or leave isolate out"
        )


def _threads() -> list[str]:
    """The names of the threads beside this one."""
    python = {each.native_id: each.name for each in threading.enumerate()}
    found = []
    for entry in sorted(Path("/proc/self/task").iterdir(), key=lambda each: int(each.name)):
        number = int(entry.name)
        if number != os.getpid():
            with contextlib.suppress(OSError):  # it has just ended
                of_library = f"{(entry / 'comm').read_text().strip()} (of a library, not Python's)"
                found.append(python.get(number) or of_library)
    return found


class ForkServer:
    """Forks a process for each run.

    Args:
        lambdas: those that may be asked for, by name.
        control: to the worker.
    """

    def __init__(self, lambdas: Mapping[str, Lambda[..., Any]], control: socket.socket) -> None:
        self._lambdas = lambdas
        self._control = control
        self._runs: dict[int, int] = {}
        """Number of the run by the pid of its process."""
        self._ahead: tuple[int, socket.socket] | None = None
        """A process that was forked ahead, and waits: a run need not wait for the fork."""
        self._spared = children_of(os.getpid())
        """Processes that no run has left behind, since the imports have started them, and those that this one may not kill."""

    def serve(self, wakeup: int) -> None:
        """Serves until the worker ends. The descriptor `wakeup` has something to read when a child may have ended."""
        self._ahead = self._fork()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == wakeup:
                    os.read(wakeup, 512)
                    self._reap()
                    continue
                packet, descriptors = b"", list[int]()
                with contextlib.suppress(ConnectionResetError):
                    packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET_BYTES, DESCRIPTORS)
                if not packet:
                    return  # the runs end with this process
                match unpack(packet):
                    case ["run", int(number)]:
                        self._give(number, descriptors)
                    case ["kill", int(number)]:
                        for pid in [pid for pid, each in self._runs.items() if each == number]:
                            os.kill(pid, signal.SIGKILL)

    def _give(self, number: int, descriptors: Sequence[int]) -> None:
        """Gives a run the process that was forked ahead for it, and forks one ahead for the next."""
        try:
            if len(descriptors) < DESCRIPTORS:  # the kernel had no room for them here
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            while number not in self._runs.values():
                pid, way = self._ahead or self._fork()
                self._ahead = None
                with way, contextlib.suppress(ConnectionError):  # somebody has killed it
                    socket.send_fds(way, [b"x"], descriptors)
                    self._runs[pid] = number
        except OSError as error:
            self._control.send(pack("unborn", number, str(error)))
        finally:
            for each in descriptors:  # before the next fork, which would keep them for the next run
                os.close(each)
        if self._ahead is None:
            with contextlib.suppress(OSError):  # the next run tries it again, and says so
                self._ahead = self._fork()

    def _fork(self) -> tuple[int, socket.socket]:
        """Forks a process that waits for its run. Returns its pid, and the socket over which it is given one."""
        server = os.getpid()
        ours, theirs = pair()
        # A stop that reaches every process must find the run with handlers of its own.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals())
        try:
            child = os.fork()
        finally:
            if os.getpid() == server:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                theirs.close()
        if child:
            return child, ours
        try:
            die_with_parent(server)
            adopt_orphans()  # what it leaves without a parent is still the run's
            os.setsid()
            ours.close()
            self._control.close()
            isolated_run.serve_one(self._lambdas, theirs, mask)
        except BaseException:  # noqa: BLE001  never back into the server
            traceback.print_exc()
        finally:
            os._exit(1)

    def _reap(self) -> None:
        ended = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                if self._ahead is not None and pid == self._ahead[0]:
                    self._ahead[1].close()
                    self._ahead = None
                self._spared.discard(pid)
                if pid in self._runs:
                    ended.append((self._runs.pop(pid), os.waitstatus_to_exitcode(status)))
        if ended:
            self._kill_left_behind()
        for number, code in ended:
            self._control.send(pack("ended", number, code))

    def _kill_left_behind(self) -> None:
        """Kills what ended runs have started. It has become this process' child, and what it has started becomes that then."""
        ours = {*self._runs, *([] if self._ahead is None else [self._ahead[0]])}
        while left := children_of(os.getpid()) - ours - self._spared:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                except PermissionError:  # it runs as another user
                    self._spared.add(pid)


def _catch_signals(wakeup: int = -1) -> int:
    """The descriptor that can be read when a signal has come. Stops are the worker's matter, whose end is this process' end."""
    if wakeup < 0:
        wakeup, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    numbers = (*stop_signals(), signal.SIGCHLD)
    for number in numbers:
        signal.signal(number, lambda _number, _frame: None)
    keep_signals_from_children(*numbers)
    return wakeup


if __name__ == "__main__":
    protect_without_threads()
    sys.exit(main(sys.argv[1:]))
