"""A standard stream that never blocks its process and never raises: what its reader does not take is counted and said."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import stat
import threading  # noqa: TID251  a write may take for ever: on a pipe that nobody reads, on a disk that does not answer
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

WRITE: Final = os.write
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
SETTLE_S: Final = 0.5
"""Seconds that the last lines have at the end of a process."""

Notice = Callable[[int, str], str]
"""Says in a line that so many lines are missing, and why."""
outputs: weakref.WeakSet[SafeOutput] = weakref.WeakSet()
"""All of this process: a forked child has no threads for them."""


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
        self.notice: Notice = "{} lines are missing here: {}".format
        self.name, self.lost, self.error = name, 0, 0
        self._descriptor, self._closes, self._line = descriptor, closes, bytearray()
        self._pending: deque[bytes] = deque()
        self._size = 0  # bytes that have not been written yet
        self._torn = False  # a write broke off within a line
        self._impatient = False  # nobody waits for room any more
        self._direct = self._mute = False
        self._is_pipe = False
        with contextlib.suppress(OSError):
            self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        # A lock that the thread which has it may take again: a signal's handler may write while its thread does.
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        outputs.add(self)

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
                    self._add(end)
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
                self._add(len(self._line))
        self.wait_written(0 if self._impatient else _PATIENCE_S)

    def wait_written(self, seconds: float) -> bool:
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
        done = self.wait_written(SETTLE_S)
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
        self._direct, self._mute = True, not self.wait_written(0)

    def forked(self) -> None:
        """Takes note that this is a child: what waited is the parent's to write, and the lock may be taken for ever."""
        self._direct, self._pending, self._size, self._line = True, deque(), 0, bytearray()
        self._changed = threading.Condition(threading.RLock())

    def move(self, descriptor: int) -> None:
        """Writes to another descriptor from now on; called where no thread writes."""
        self._descriptor = descriptor

    # --- in the threads of callers ---

    def _whole(self) -> int:
        """How many bytes are to be written now."""
        return len(self._line) if len(self._line) > _LONGEST_LINE else self._line.rfind(b"\n") + 1

    def _add(self, end: int) -> None:
        """Has the first so many bytes of the line written."""
        lines = bytes(self._line[:end])
        del self._line[:end]

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
        with contextlib.suppress(OSError):  # the thread tries again, and counts it
            has_room = any(events == select.POLLOUT for _, events in poll.poll(0))
            return has_room and os.write(self._descriptor, lines) == len(lines)
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
        taken = self._pending.popleft() if self._pending else b""
        while self._pending and len(taken) + len(self._pending[0]) <= _AT_ONCE:
            taken += self._pending.popleft()
        return taken

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
