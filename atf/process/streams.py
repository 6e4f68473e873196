"""stdout and stderr of a process that must go on whatever becomes of them: a full disk, a reader that has ended, one that reads no more.

1. `protect` replaces sys.stderr, and sys.stdout too where it only tells of the work, by streams that neither fail nor block.
2. Each has a thread that writes. It drops and counts what can't be written; when writing works again, it says there how much is missing.
3. `settle` gives these threads a moment at the end of the process.

Only the standard library: a guard loads it, too.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import io
import os
import select
import stat
import sys
import threading  # noqa: TID251  a write may take for ever: on a pipe that nobody reads, on a disk that does not answer
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, cast

_WRITE: Final = os.write
_POLL: Final = select.poll
_SELECT: Final = select.select
"""As they are before somebody patches them: eventlet takes select.poll away."""
_MOST_PENDING: Final = 1 << 20
"""Bytes that wait to be written; what comes beyond is dropped."""
_PATIENCE_S: Final = 0.1
"""Seconds that a caller waits for room, since a reader may only be slow. Then nobody waits until all has been written."""
_AT_ONCE: Final = 4096
"""Bytes of several lines in one write. A pipe takes so many as a whole, so that lines of several processes do not mix."""
_LONGEST_LINE: Final = 64 << 10
"""Bytes without an end of line that are not kept for longer."""
_SETTLE_S: Final = 0.5
"""Seconds that the last lines have at the end of a process."""

_FAR: Final = 256
"""Descriptors from here on are left alone by code that closes all it can think of."""
_LAST_LINES_S: Final = 0.2
"""Seconds that they have where it is to end at once."""

Notice = Callable[[int, str], str]
"""Says in a line that so many lines are missing, and why."""


def _plain(lines: int, why: str) -> str:
    return f"{lines} lines are missing here: {why}"


class SafeOutput(io.RawIOBase):
    """Takes bytes for a descriptor. `write` neither fails nor blocks; a thread of its own writes whole lines.

    A forked child has no such thread: it writes at once, and drops what fails.

    Args:
        descriptor: where to.
        name: of the stream, as Python's own have one.
        closes: whether `close` closes the descriptor.

    Attributes:
        notice: says what is missing, in a line that goes where the missing ones were to go.
        lost: lines that are missing and have not been told of.
        error: why, as of errno; 0: nobody read them in time.
    """

    def __init__(self, descriptor: int, name: str, *, closes: bool = False) -> None:
        self.notice: Notice = _plain
        self.lost, self.error = 0, 0
        self.name = name
        self._descriptor, self._closes = descriptor, closes
        self._line = bytearray()
        self._pending: deque[bytes] = deque()
        self._size = 0  # bytes that have not been written yet
        self._torn = False  # a write broke off within a line
        self._impatient = False  # nobody waits for room any more
        self._direct = self._mute = False
        self._is_pipe = _is_pipe(descriptor)
        # A lock that the thread which has it may take again: a signal's handler may write while its thread does.
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        _outputs.add(self)

    # --- as a stream ---

    def write(self, data: Any) -> int:
        if self._mute:
            return len(data)
        if self._direct:
            self._line += data
            if self._whole():
                self._write_directly()
            return len(data)
        try:
            with self._changed:
                self._line += data
                if end := self._whole():
                    lines = bytes(self._line[:end])
                    del self._line[:end]
                    self._add(lines)
        except RuntimeError:  # somebody patches locks while they are in use, as eventlet does
            self.forked()
            return self.write(data)
        return len(data)

    def flush(self) -> None:
        """Has half a line written, too. Waits for a moment: whoever asks for this may end the process next."""
        if self._mute:
            return
        if self._direct:
            self._write_directly()
            return
        with self._changed:
            if self._line:
                part = bytes(self._line)
                self._line.clear()
                self._add(part)
        self.settle(0 if self._impatient else _PATIENCE_S)

    def settle(self, seconds: float) -> bool:
        """Waits until all is written, at most so long; whether it is."""
        if self._direct or self._mute:
            return self._direct
        with self._changed:
            done = self._changed.wait_for(lambda: not self._size, seconds)
            self._impatient = self._impatient or not done
        return done

    def close(self) -> None:
        if self.closed:
            return
        self.flush()
        done = self.settle(_SETTLE_S)
        super().close()
        if not self._direct:
            with self._changed:
                self._changed.notify_all()  # its thread ends
        if self._closes and done:  # else its thread is still writing there
            with contextlib.suppress(OSError):
                os.close(self._descriptor)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def end(self) -> None:
        """From now on nothing waits for the thread, which the interpreter stops wherever it is, and nothing is kept."""
        self._direct, self._mute = True, not self.settle(0)

    def forked(self) -> None:
        """Takes note that this is a child: what waited is the parent's to write, and the lock may be taken for ever."""
        self._direct = True
        self._pending, self._size, self._line = deque(), 0, bytearray()
        self._changed = threading.Condition(threading.RLock())

    def move(self, descriptor: int) -> None:
        """Writes to another descriptor from now on; called where no thread writes."""
        self._descriptor = descriptor

    # --- in the threads of callers ---

    def _whole(self) -> int:
        """How many bytes are to be written now."""
        return len(self._line) if len(self._line) > _LONGEST_LINE else self._line.rfind(b"\n") + 1

    def _add(self, lines: bytes) -> None:
        def room() -> bool:
            return not self._size or self._size + len(lines) <= _MOST_PENDING

        if not self._size and self._written_now(lines):
            return
        if not room() and (self._impatient or not self._changed.wait_for(room, _PATIENCE_S)):
            self._impatient = True
            self._lose(lines, 0)
            return
        self._pending.append(lines)
        self._size += len(lines)
        if self._thread is None:
            self._start()
        self._changed.notify_all()

    def _written_now(self, lines: bytes) -> bool:
        """Writes to a pipe that has room, so that the lines outlive this process, however it ends; whether it did."""
        if not self._is_pipe or self.lost or self._torn or len(lines) > _AT_ONCE:
            return False
        poll = _POLL()
        poll.register(self._descriptor, select.POLLOUT)
        if not any(events == select.POLLOUT for _, events in poll.poll(0)):
            return False
        with contextlib.suppress(OSError):  # the thread tries again, and counts it
            return os.write(self._descriptor, lines) == len(lines)
        return False

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name=f"writes to {self.name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the system gives no more threads, or the interpreter is ending
            self._thread, self._direct = None, True
            self._line[:0] = b"".join(self._pending)
            self._pending, self._size = deque(), 0
            self._write_directly()

    def _write_directly(self) -> None:
        data, self._line = bytes(self._line), bytearray()
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

    # --- in the thread that writes ---

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self.closed)
                lines = self._take()
            if not lines:
                return
            if self.lost and self.error and not self._tell():
                self._lose(lines, self.error)
            elif left := self._put(lines):
                self._lose(left, self.error)
            if self.lost and not self.error and self._size == len(lines):
                self._tell()  # of what did not wait, behind what did
            with self._changed:
                self._size -= len(lines)
                self._impatient = self._impatient and self._size > 0
                self._changed.notify_all()

    def _take(self) -> bytes:
        """Some of what waits."""
        taken: list[bytes] = []
        size = 0
        while self._pending and (not taken or size + len(self._pending[0]) <= _AT_ONCE):
            taken.append(self._pending.popleft())
            size += len(taken[-1])
        return b"".join(taken)

    def _tell(self) -> bool:
        """Says how much is missing; whether that could be said."""
        lost = self.lost
        sentence = self.notice(lost, os.strerror(self.error) if self.error else "nobody read them")
        if self._put(sentence.encode("utf-8", "backslashreplace") + b"\n"):
            return False
        with self._changed:
            self.lost -= lost
        return True

    def _put(self, lines: bytes) -> bytes:
        """Writes; returns what could not be written."""
        if self._torn and self._rest(b"\n"):
            return lines
        self._torn = False
        left = self._rest(lines)
        self._torn = 0 < len(left) < len(lines) and not lines[: -len(left)].endswith(b"\n")
        return left

    def _rest(self, data: bytes) -> bytes:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # somebody who shares the descriptor has made it so
                _SELECT([], [self._descriptor], [])
            except OSError as error:
                self.error = error.errno or errno.EIO
                return data
        return b""

    def _lose(self, lines: bytes, error: int) -> None:
        with self._changed:
            self.lost += max(lines.count(b"\n"), 1)
            self.error = error


_outputs: weakref.WeakSet[SafeOutput] = weakref.WeakSet()
_standard: dict[str, SafeOutput] = {}
"""Those of sys.stdout and sys.stderr, by these names."""


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False


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
    os.write = _WRITE
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


def settle(seconds: float = _SETTLE_S) -> None:
    """Has the last lines written, before a process ends. Takes about so long at most, where nobody reads them."""
    for output in _standard.values():
        output.flush()
    stdout = _standard.get("stdout")
    if stdout is not None and stdout.settle(seconds) and stdout.lost and stdout.error not in {0, errno.EPIPE}:
        # That its reader has seen enough, as `head` has, is nothing to say.
        lost, stdout.lost = stdout.lost, 0
        sys.stderr.write(f"{lost} lines of stdout are missing: {os.strerror(stdout.error)}\n")
    if is_protected():
        _standard["stderr"].settle(seconds)


def exit_at_once(code: int) -> NoReturn:
    """Ends the process whatever its threads do, without the ends of its modules; the last lines have a moment."""
    settle(_LAST_LINES_S)
    os._exit(code)


def _end() -> None:
    settle()
    for output in list(_outputs):
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
    for output in list(_outputs):
        output.forked()


os.register_at_fork(after_in_child=_forked)
