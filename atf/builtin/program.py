"""Runs one program with all that it starts: never through a shell, in a process group that ends with it.

The group stays in the executor's session: should the executor die, its guard finds the program there, and kills it.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from .command_result import MAX_STDOUT_BYTES, STDERR_BYTES, EndedProgram

_TICK_S: Final = 0.05
"""Seconds between two looks at whether the run is to stop, and whether the program has ended while something that it has left behind
holds its output open."""
_FIRST_S: Final = 0.001
_READ_BYTES: Final = 64 << 10
_LAST_READS: Final = 64
"""Of what the pipes still hold: at most one of 64 KiB each, as they are, unless something that has left the group goes on writing."""


class NotStarted(Exception):
    """The system refused to start the program."""


class ProgramStopped(Exception):
    """The run was to stop; the program was killed."""


class OutputTooLong(Exception):
    """There was more output than may be kept; the program was killed."""


def run(path: str, argv: Sequence[str], environment: Mapping[str, str], stop: Callable[[], bool]) -> EndedProgram:
    """Runs a program to its end, in a temporary folder of its own.

    Args:
        path: its file.
        argv: its arguments; the first one is its name.
        environment: all of it, but for the folder.
        stop: whether it is to be killed.

    Raises:
        NotStarted, ProgramStopped, OutputTooLong: see there.
    """
    with tempfile.TemporaryDirectory(prefix="atf-command-", ignore_cleanup_errors=True) as folder:
        try:
            process = subprocess.Popen(
                list(argv),
                executable=path,
                cwd=folder,
                env={**environment, "HOME": folder, "TMPDIR": folder},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            raise NotStarted(f"{path} can't be started: {error}") from None
        with process:
            try:
                stdout, stderr = _read(process, stop)
            finally:
                _kill(process)
        code = process.returncode
        return EndedProgram(code if code >= 0 else 128 - code, stdout, stderr)


def is_soon(flag: Callable[[], bool], seconds: float) -> bool:
    """Whether something is so, or will be within so many seconds."""
    for _ in range(round(seconds / _TICK_S)):
        if flag():
            break
        select.select((), (), (), _TICK_S)
    return flag()


class _Output:
    """What a program prints: all of stdout, and the end of stderr."""

    def __init__(self, process: subprocess.Popen[bytes], selector: selectors.BaseSelector) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdout, self.stderr = bytearray(), bytearray()
        self._selector = selector
        for pipe, kept in ((process.stdout, self.stdout), (process.stderr, self.stderr)):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, kept)

    @property
    def closed(self) -> bool:
        """Whether nothing more can come."""
        return not self._selector.get_map()

    def take(self, seconds: float) -> bool:
        """Waits at most so long for more, and takes it. Returns whether there was any.

        Raises:
            OutputTooLong: stdout is longer than what is kept of it.
        """
        ready = self._selector.select(seconds)
        for key, _ in ready:
            data = os.read(key.fd, _READ_BYTES)
            if data:
                key.data.extend(data)
            else:
                self._selector.unregister(key.fileobj)
        del self.stderr[:-STDERR_BYTES]
        if len(self.stdout) > MAX_STDOUT_BYTES:
            raise OutputTooLong
        return bool(ready)


def _read(process: subprocess.Popen[bytes], stop: Callable[[], bool]) -> tuple[bytes, bytes]:
    """Reads until the program has ended, and kills what it has left behind."""
    wait = _FIRST_S
    with selectors.DefaultSelector() as selector:
        output = _Output(process, selector)
        while not _has_ended(process):
            if stop():
                raise ProgramStopped
            output.take(wait if output.closed else _TICK_S)
            if output.closed:  # mostly it ends the moment after
                wait = min(wait * 2, _TICK_S)
        _kill(process)
        for _ in range(_LAST_READS):
            if not output.take(0):
                break
    return bytes(output.stdout), bytes(output.stderr)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the program has ended. Where the system can tell so without reaping it, its number, which is its group's, stays taken."""
    if not hasattr(os, "waitid"):  # no Linux
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the second: only zombies are left
        os.killpg(process.pid, signal.SIGKILL)
