"""Keeps a process going whatever becomes of its stdout and stderr: a full disk, a reader that has ended or reads no more.

1. `protect` replaces sys.stderr, and sys.stdout too where it only tells of the work, by streams that neither fail nor block.
2. Each has a thread that writes. It drops and counts what can't be written; when writing works again, it says there how much is missing.
3. `wait_written` gives these threads a moment at the end of the process.

Only the standard library: a guard loads it, too.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, cast

from .safe_output import SETTLE_S, WRITE, Notice, SafeOutput, outputs

_FAR: Final = 256
"""Descriptors from here on are left alone by code that closes all it can think of."""
_LAST_LINES_S: Final = 0.2
"""Seconds that they have where it is to end at once."""

_standard: dict[str, SafeOutput] = {}
"""Those of sys.stdout and sys.stderr, by these names."""


def protect() -> None:
    """Has nothing that this process says on stderr end, delay or change what it does. Called once, by who is this process's program."""
    _fill_standard_descriptors()
    # gRPC writes what it notices, such as each connection that a peer closes, as bare text between our lines. What fails it raises, too.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    _replace("stderr", 2)
    atexit.register(_end)


def protect_stdout() -> None:
    """The same of stdout, where what goes there only tells of the work. Where it is the work, as a list is, errors must be seen.

    Does nothing in a process that has not called `protect`.
    """
    if is_protected() and "stdout" not in _standard:
        _replace("stdout", 1)


def protect_without_threads() -> None:
    """The same of both, in a process that must start no threads since it forks: whoever says a line writes it at once.

    So it waits if nobody reads. What is written to a worker's outputs is always read.
    """
    protect()
    protect_stdout()
    _forked()


def go_on_without_threads() -> None:
    """Has whoever says a line write it at once, from now on: for a process whose threads, locks and writes somebody has patched."""
    os.write = WRITE
    _forked()


def lead_elsewhere(stdout: int, stderr: int) -> None:
    """Has what is written to the descriptors 1 and 2 themselves go elsewhere; what is written to protected streams goes where it went.

    Args:
        stdout, stderr: descriptors, of which this process keeps 1 and 2 alone.

    Raises:
        OSError: no descriptors are left.
    """
    for name, number, to in (("stdout", 1, stdout), ("stderr", 2, stderr)):
        _standard[name].move(os.dup(number))
        os.dup2(to, number)
        os.close(to)


@contextlib.contextmanager
def given_back() -> Iterator[None]:
    """Gives this process its stdout and stderr back at the end, whatever user code has closed or put in their places."""
    encoding = sys.stdout.encoding
    before = sys.stdout, sys.stderr
    kept = [beyond_reach(os.dup(number)) for number in (1, 2)]
    try:
        yield
    finally:
        for stream in (sys.stdout, before[0]):
            with contextlib.suppress(Exception):  # a user's stream
                stream.flush()
        for number, descriptor in enumerate(kept, 1):
            with contextlib.suppress(OSError):  # it has closed all
                os.dup2(descriptor, number)
                os.close(descriptor)
        sys.stdout, sys.stderr = before
        if sys.stdout.closed:
            sys.stdout = open(1, "w", encoding=encoding, errors="replace", closefd=False)  # noqa: SIM115


def beyond_reach(descriptor: int) -> int:
    """Moves a descriptor to a high number, which user code that closes many leaves alone. Returns the number."""
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FAR)
    except OSError:  # the limit is that low
        return descriptor
    os.close(descriptor)
    return moved


def is_protected() -> bool:
    """Whether this process has called `protect`: it is a program of ours, not a test that calls a function of one."""
    return "stderr" in _standard


def open_log(path: Path) -> TextIO:
    """A new file for lines of a log, of UTF-8; writing to it neither fails nor blocks.

    Raises:
        OSError: it can't be made.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    return _SafeText(SafeOutput(descriptor, str(path), closes=True), "utf-8")


def notice_by(notice: Notice) -> None:
    """Decides how missing lines are told of on stderr, if that is protected."""
    if is_protected():
        _standard["stderr"].notice = notice


def wait_written(seconds: float = SETTLE_S) -> None:
    """Has the last lines written, before a process ends. Takes about so long at most, where nobody reads them."""
    for output in _standard.values():
        output.flush()
    stdout = _standard.get("stdout")
    if stdout is not None and stdout.wait_written(seconds) and stdout.lost and stdout.error not in {0, errno.EPIPE}:
        # That its reader has seen enough, as `head` has, is nothing to say.
        lost, stdout.lost = stdout.lost, 0
        sys.stderr.write(f"{lost} lines of stdout are missing: {os.strerror(stdout.error)}\n")
    if is_protected():
        _standard["stderr"].wait_written(seconds)


def exit_at_once(code: int) -> NoReturn:
    """Ends the process whatever its threads do, without the ends of its modules; the last lines have a moment."""
    wait_written(_LAST_LINES_S)
    os._exit(code)


def _end() -> None:
    wait_written()
    for output in list(outputs):
        output.end()


def _replace(name: str, descriptor: int) -> None:
    before: TextIO | None = getattr(sys, name)
    encoding = "utf-8"
    if before is not None:
        encoding = before.encoding
        with contextlib.suppress(OSError, ValueError):
            before.flush()
    _standard[name] = SafeOutput(descriptor, f"<{name}>")
    setattr(sys, name, _Standard(_standard[name], encoding))


class _SafeText(io.TextIOWrapper):
    def __init__(self, output: SafeOutput, encoding: str) -> None:
        # Not line_buffering, which would flush, and that waits. SafeOutput keeps lines together by itself.
        super().__init__(cast("Any", output), encoding=encoding, errors="backslashreplace", write_through=True)


class _Standard(_SafeText):
    """sys.stdout or sys.stderr. User code that closes it, as daemons do, must not silence the rest of the process."""

    def close(self) -> None:
        self.flush()


def _fill_standard_descriptors() -> None:
    """Opens those of the three that are closed: else the next file or connection would be one, and get what is said."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest number that is free
    if sys.stdout is None:  # who asked for output and closed stdout is told, by a descriptor that can't be written to
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _forked() -> None:
    for output in list(outputs):
        output.forked()


os.register_at_fork(after_in_child=_forked)
