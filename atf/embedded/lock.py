"""Locks the data directory, so that one store uses it at a time. It owns the directory's locks and nothing of what the store writes there.

up.lock        held by the `atf up` that uses the directory; names its pid
store.lock     inherited by the store server itself, so that the kernel keeps a second server off the same files even when
               everything else was killed; names the server's pid
up.json        where the running roles and the store listen; written when all are up, gone after a clean end
store/         the server's own files
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Final

from atf.errors import ConfigError, FailedPrecondition, Unavailable

_ORPHAN_GRACE: Final = 10.0
"""Seconds a left-over server gets to end by itself; then it is killed."""


class DataDir:
    """A data directory, created if need be. `lock()` before writing, `release()` at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = -1
        try:
            self.store.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"data directory {self.path}: {error.strerror}") from error

    @property
    def store(self) -> Path:
        """Where the server keeps its files."""
        return self.path / "store"

    def lock(self) -> None:
        """Takes the directory for this process.

        Raises:
            FailedPrecondition: another `atf up` uses it; the message names its pid.
        """
        held = _try_lock(self.path / "up.lock")
        if held is None:
            time.sleep(0.1)  # `announced` of another process may have held it for an instant
            held = _try_lock(self.path / "up.lock")
        if held is None:
            holder = _pid_in(self.path / "up.lock")
            raise FailedPrecondition(
                f"data directory {self.path} is in use by another `atf up` (pid {holder or 'unknown'}):"
                " stop that one, or give another --data-dir"
            )
        self._lock = held
        _write_pid(held, os.getpid())
        (self.path / "up.json").unlink(missing_ok=True)

    def release(self) -> None:
        """Gives the directory free; does nothing if it was not held."""
        if self._lock >= 0:
            (self.path / "up.json").unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def lock_server(self) -> int:
        """A descriptor that holds the server's lock, for the server to inherit; stops a left-over server first. Blocks.

        Raises:
            Unavailable: a left-over server did not end.
        """
        deadline = time.monotonic() + _ORPHAN_GRACE
        number = signal.SIGTERM
        while (held := _try_lock(self.path / "store.lock")) is None:
            orphan = _pid_in(self.path / "store.lock")
            if time.monotonic() > deadline and number is signal.SIGKILL:
                raise Unavailable(f"the store server (pid {orphan}) left behind in {self.path} does not end")
            if time.monotonic() > deadline:
                number, deadline = signal.SIGKILL, time.monotonic() + _ORPHAN_GRACE
            if _serves(orphan, self.store):
                _signal(orphan, number)
            time.sleep(0.05)  # only while an orphan ends
        return held

    def note_server(self, descriptor: int, pid: int) -> None:
        """Writes down which process holds the server's lock."""
        _write_pid(descriptor, pid)

    def announce(self, where: dict[str, Any]) -> None:
        """Writes down where everything listens, for other commands."""
        draft = self.path / "up.json.new"
        draft.write_text(json.dumps(where, indent=2) + "\n", encoding="utf-8")
        draft.replace(self.path / "up.json")

    def announced(self) -> dict[str, Any] | None:
        """Where the `atf up` that holds the directory says everything listens; None: nobody holds it, or it is not up yet."""
        held = _try_lock(self.path / "up.lock")
        if held is not None:
            os.close(held)
            return None
        try:
            where: dict[str, Any] = json.loads((self.path / "up.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return where


def _try_lock(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _write_pid(descriptor: int, pid: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{pid}\n".encode(), 0)


def _pid_in(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _serves(pid: int, directory: Path) -> bool:
    """Whether the process works in `directory`, as a store server does: its number may have passed to an innocent one."""
    try:
        return Path(f"/proc/{pid}/cwd").resolve(strict=True) == directory.resolve()
    except OSError:
        return pid > 1 and not Path("/proc/self/cwd").exists()  # no /proc on this system: trust the lock file


def _signal(pid: int, number: signal.Signals) -> None:
    if pid <= 1:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
