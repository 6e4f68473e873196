"""A process and all that it started: spawned in a session of its own, killed and waited for as a whole.

Owns nothing but the operating system's view of it. Only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LOOK_FIRST_S: Final = 0.005
_LOOK_MOST_S: Final = 0.25


class Group:
    """A running process, its session and its process group. What moved itself to another session is not in it."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], keep: Sequence[int]) -> None:
        """Starts it.

        Args:
            command: the program and its arguments.
            env: its environment.
            keep: descriptors that it inherits beside stdout and stderr.

        Raises:
            OSError: it can't be started.
        """
        self._process = subprocess.Popen(
            command, env=env, pass_fds=tuple(keep), stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.pid = self._process.pid

    def ended(self) -> bool:
        """Whether the first process has ended. Where the system can tell so without reaping it, its number stays taken."""
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):  # no Linux
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def memory_bytes(self) -> int:
        """Resident memory of the first process; 0 where it can't be read."""
        try:
            return int((_PROC / str(self.pid) / "statm").read_text("ascii").split()[1]) * _PAGE_BYTES
        except (OSError, ValueError, IndexError):
            return 0

    def kill(self) -> int:
        """Kills all of it, waits until all of it is gone, and returns the exit code of the first process; -n for signal n.

        May take long only if the kernel holds a process in a call that can't be interrupted.
        """
        wait = _LOOK_FIRST_S
        while True:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # the second: only zombies are left
                os.killpg(self.pid, signal.SIGKILL)
            members = self._members()
            if self.ended() and not members:
                return self._process.wait()
            for member in members:
                with contextlib.suppress(ProcessLookupError):  # one that left the group, as a shell's jobs do
                    os.kill(member, signal.SIGKILL)
            time.sleep(wait)  # noqa: TID251  nothing is left to do but this
            wait = min(wait * 2, _LOOK_MOST_S)

    def _members(self) -> list[int]:
        """The processes of the session that still live: zombies run no code any more."""
        if not _PROC.is_dir() or not (_PROC / "self").exists():
            return self._members_without_proc()
        found = []
        for entry in _PROC.iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_bytes()
                except OSError:
                    continue  # it has just ended
                # The name, in parentheses, may hold anything; after its last one: state, parent, group, session.
                state, _parent, group, session = stat.rpartition(b")")[2].split(None, 4)[:4]
                if state not in {b"Z", b"X"} and self.pid in {int(group), int(session)}:
                    found.append(int(entry.name))
        return found

    def _members_without_proc(self) -> list[int]:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [] if self.ended() and self._process.poll() is not None else [self.pid]
