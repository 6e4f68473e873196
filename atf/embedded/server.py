"""The embedded task store: one store server on a private Unix socket, its data in a data directory.

It owns the server's settings, its start (until everything is loaded), and its end. Which server to run is binary.py's matter,
who may use the directory is lock.py's. Of the Redis protocol it speaks PING alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from atf.errors import ConfigError, Unavailable
from atf.log import get_logger

from .binary import ServerBinary
from .child import Child
from .lock import DataDir

_log = get_logger(duty="store")

_MAX_SOCKET_PATH: Final = 100
"""Bytes; the kernel takes 108, macOS 104, each with a final zero."""
_STOP_GRACE: Final = 20.0
"""Seconds the server gets to write what it holds and end."""
_REWRITE_MIB: Final = 16
"""The append-only file is rewritten when it is twice as large as after its last rewrite, and larger than this. What it holds is
executed once more at a start, so that the default of 64 would keep all roles waiting for seconds after a crash."""
_LOG_BYTES: Final = 4 << 20
"""A server log longer than this is put aside as server.log.old at the next start."""
MALLOC: Final = "glibc.malloc.tcache_count=10000:glibc.malloc.tcache_max=256"
"""A function over 256 tasks allocates some ten thousand small strings and frees them all at its end. glibc keeps seven of a size at
hand and goes the long way for the rest, which took a third of the server's time; so it shall keep more of them, 20 MiB at most.
Other allocators take no notice."""
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
"""What a container may use at most."""
DURABILITY: Final = {"disk": "always", "relaxed": "everysec"}


class EmbeddedStore:
    """One store server, which may be started again after it ended.

    Args:
        binary: the server to run.
        data: the data directory; the caller has locked it.
        durability: "disk": an accepted task is on disk before its acceptance is answered. "relaxed": written to disk once a
            second; a power cut or crash of the machine may cost the last two seconds. A crash of the server alone costs nothing.
        maxmemory_mib: MiB of records at which the store refuses new tasks; 0: half of the machine's memory.

    Raises:
        ConfigError: a setting breaks a rule.
    """

    name = "store"

    def __init__(
        self, binary: ServerBinary, data: DataDir, *, durability: str = "disk", maxmemory_mib: int = 0
    ) -> None:
        if durability not in DURABILITY:
            raise ConfigError(f"durability = {durability!r}: use {' or '.join(DURABILITY)}")
        if maxmemory_mib < 0:
            raise ConfigError(f"maxmemory_mib = {maxmemory_mib}: give MiB, or 0 for half of the machine's memory")
        self.binary, self.data, self.durability = binary, data, durability
        self.maxmemory_mib = maxmemory_mib or _half_of_memory_mib()
        self._child: Child | None = None
        self._has_log = True
        self._short_dir = ""
        self._socket = data.path / "store.sock"
        if len(os.fsencode(self._socket)) > _MAX_SOCKET_PATH:
            self._short_dir = tempfile.mkdtemp(prefix="atf-")
            self._socket = Path(self._short_dir, "store.sock")

    @property
    def url(self) -> str:
        """The address for redis_url."""
        return f"unix://{quote(os.fsencode(self._socket))}"  # a folder may be called "C# shop", "what?" or "100%25"

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.data.path / "store.log"

    @property
    def pid(self) -> int:
        """The server's process; 0: none runs."""
        return self._child.pid if self._child and self._child.running else 0

    async def start(self) -> None:
        """Starts the server and returns when it has loaded its data, however long that takes.

        Raises:
            Unavailable: it ended instead; the message has its last words.
        """
        self._has_log = self._tend_log()
        self._socket.unlink(missing_ok=True)
        lock = await asyncio.to_thread(self.data.lock_server)
        try:
            env = {"GLIBC_TUNABLES": MALLOC, **os.environ}  # a user who tunes it knows why
            self._child = Child(self._command(), env=env, keep_fds=[lock], death_signal=signal.SIGTERM)
            self.data.note_server(lock, self._child.pid)
        finally:
            os.close(lock)  # the server has its own copy
        try:
            await self._loaded(self._child)
        except BaseException:
            self._child.kill_group()
            raise

    async def wait(self) -> int:
        """Waits for the server's end; its exit code, or minus the signal that ended it."""
        if self._child is None:
            return 0
        code = await self._child.wait()
        self._child.kill_group()  # a child that rewrites the append-only file must not outlive it
        return code

    async def stop(self, grace: float = _STOP_GRACE) -> None:
        """Ends the server in order. Calling it twice does no harm."""
        if self._child is not None:
            await self._child.stop(grace)
        self._socket.unlink(missing_ok=True)
        if self._short_dir:
            shutil.rmtree(self._short_dir, ignore_errors=True)

    def kill(self) -> None:
        """Ends the server at once."""
        if self._child is not None:
            self._child.kill_group()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _command(self) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self.data.store),
            "logfile": str(self.log) if self._has_log else "",
            "daemonize": "no",
            "databases": "1",
            "appendonly": "yes",
            "appendfsync": DURABILITY[self.durability],
            "auto-aof-rewrite-min-size": f"{_REWRITE_MIB}mb",
            "save": "",  # the append-only file is everything; snapshots beside it would only cost
            "maxmemory": f"{self.maxmemory_mib}mb",
            "maxmemory-policy": "noeviction",
        }
        return [str(self.binary.path), *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def _tend_log(self) -> bool:
        """Keeps the log short. Whether it can be written: a server refuses to start where it can't, and needs none."""
        try:
            if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
                self.log.replace(self.log.with_suffix(".log.old"))
            os.close(os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o644))
        except OSError as error:
            _log.warning("the task store runs without its log", path=str(self.log), error=error.strerror)
            return False
        return True

    async def _loaded(self, child: Child) -> None:
        delay = 0.005
        while not await self._answers():
            if not child.running:
                raise Unavailable(f"the store server {self.binary} ended while it started: {self._last_words()}")
            await asyncio.sleep(delay)
            delay = min(delay * 1.5, 0.2)

    async def _answers(self) -> bool:
        """Whether the server answers PING with anything but LOADING."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._socket))
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return (await reader.readline()).startswith(b"+PONG")
        except OSError:
            return False
        finally:
            writer.close()

    def _last_words(self) -> str:
        try:
            lines = [
                line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
            ]
        except OSError:
            lines = []
        return f"{lines[-1].strip()} (all of it: {self.log})" if lines else "it said nothing"


def _half_of_memory_mib() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no limit ("max"), or a system without one
        memory = min(memory, int(_CGROUP_LIMIT.read_text(encoding="ascii")))
    return max(64, memory // 2 >> 20)
