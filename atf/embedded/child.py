"""Starts child processes whose lives are tied to this one.

It owns starting a process, waiting for its end without polling, and its output as lines. It knows neither roles nor stores.
A child is tethered (tether.py): if this process is killed, the kernel ends the child. The kernel watches the *thread* that
started the child, so start children from a thread that lives as long as the process: the main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_TETHER = str(Path(__file__).with_name("tether.py"))
_MAX_LINE_BYTES = 64 << 10

LineSink = Callable[[str], None]


class Child:
    """A running process, in a session of its own: a terminal's Ctrl-C reaches us, never it.

    Args:
        argv: the program (an absolute path) and its arguments.
        env: its environment; None: ours.
        keep_fds: descriptors it inherits beside the three standard ones.
        on_line: called with each line that it writes to stdout or stderr; None: both go to /dev/null.
        death_signal: what it gets when this process dies without having stopped it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        keep_fds: Sequence[int] = (),
        on_line: LineSink | None = None,
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        reader, writer = os.pipe() if on_line else (-1, -1)
        output = writer if on_line else subprocess.DEVNULL
        tethered = [sys.executable, "-I", "-S", _TETHER, str(os.getpid()), str(int(death_signal)), *argv]
        try:
            self._process = subprocess.Popen(
                tethered,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                pass_fds=tuple(keep_fds),
                start_new_session=True,
            )
        except BaseException:
            if on_line:
                os.close(reader)
            raise
        finally:
            if on_line:
                os.close(writer)
        self._lines = _LineReader(reader, on_line) if on_line else None
        threading.Thread(target=self._reap, args=(loop,), name=f"wait-{self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return not self._ended.done()

    async def wait(self) -> int:
        """Its exit code; the negative number of the signal that ended it."""
        return await asyncio.shield(self._ended)

    async def last_lines(self, timeout: float) -> None:
        """Waits until all that it wrote has been handed on; at most `timeout` seconds, since a descendant may hold its output."""
        if self._lines is not None:
            await asyncio.wait({self._lines.ended}, timeout=timeout)

    def send(self, number: signal.Signals) -> None:
        """Signals the process; does nothing once it has ended."""
        self._process.send_signal(number)

    def kill_group(self) -> None:
        """Kills the process and every descendant that stayed in its process group."""
        # All gone; macOS says EPERM of a group of zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def stop(self, grace: float, number: signal.Signals = signal.SIGTERM) -> int:
        """Asks it to end by a signal, and sends SIGKILL to its group after `grace` seconds. Returns the exit code."""
        self.send(number)
        try:
            return await asyncio.wait_for(self.wait(), grace)
        except TimeoutError:
            self.kill_group()
            return await self.wait()

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(self._finish, code)

    def _finish(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)


class _LineReader:
    """Hands on what arrives at a pipe line by line, until its last writer is gone."""

    def __init__(self, reader: int, on_line: LineSink) -> None:
        self._reader, self._on_line, self._rest = reader, on_line, b""
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(reader, False)
        self._loop.add_reader(reader, self._read)

    def _read(self) -> None:
        try:
            chunk = os.read(self._reader, _MAX_LINE_BYTES)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk or len(self._rest) > _MAX_LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        if not chunk:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
        for line in lines:
            if line.strip():
                self._on_line(line.decode("utf-8", "replace").rstrip("\r"))
        if not chunk and not self.ended.done():
            self.ended.set_result(None)
