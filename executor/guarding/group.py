"""Spawns a process in a session of its own, and kills and awaits all that it started.

On Linux this process becomes a *child subreaper*: what the group leaves without a parent becomes a child of this process, wherever it
moved itself. So nothing of the group can hide as daemons do, and its zombies are reaped here, also where process 1 does not do that.

Owns nothing but the operating system's view of it. Only the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from atf.process.other_user import OtherUser

_PROC: Final = Path("/proc")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LOOK_FIRST_S: Final = 0.005
_LOOK_MOST_S: Final = 0.25
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
"""From <linux/prctl.h>."""


def _say_plainly(sentence: str) -> None:
    sys.stderr.write(f"executor: {sentence}\n")


class Group:
    """A running process and its descendants. Where this is no Linux: those that stayed in its session or its process group."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        keep: Sequence[int],
        output: tuple[int | None, int | None] = (None, None),
        says: Callable[[str], object] = _say_plainly,
        user: OtherUser | None = None,
    ) -> None:
        """Starts it. This process must have no other children.

        Args:
            command: the program and its arguments.
            env: its environment.
            keep: descriptors that it inherits beside stdout and stderr.
            output: its stdout and stderr; None: ours.
            says: says an error on stderr.
            user: whose it is to be; None: ours.

        Raises:
            OSError: it can't be started.
        """
        adopt_orphans()
        self._says = says
        self._spared: set[int] = set()
        """Descendants that this process may not kill."""
        self._process = subprocess.Popen(
            command,
            env=env,
            pass_fds=tuple(keep),
            stdin=subprocess.DEVNULL,
            stdout=output[0],
            stderr=output[1],
            start_new_session=True,
            **(user.start if user else {}),
        )
        self.pid = self._process.pid

    def ended(self) -> bool:
        """Whether the first process has ended. Where the system can tell so without reaping it, its number stays taken.

        Reaps what else has ended: what the group left without a parent.
        """
        self._reap()
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):  # no Linux
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def memory_bytes(self) -> int:
        """Resident memory of the first process; 0 where it can't be read."""
        try:
            return int(read_briefly(f"/proc/{self.pid}/statm").split()[1]) * _PAGE_BYTES
        except (OSError, ValueError, IndexError):
            return 0

    def _reap(self) -> None:
        """Reaps the children of this process that have ended; the first process stays a zombie until `kill`."""
        while hasattr(os, "waitid"):
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid == self.pid:
                return
            os.waitpid(ended.si_pid, 0)

    def kill(self) -> int:
        """Kills all of it, waits until all of it is gone, and returns the exit code of the first process; -n for signal n.

        May take long only if the kernel holds a process in a call that can't be interrupted. What runs as another user, as a
        program with the setuid bit does, may not be killed from here: it is left, and its pid is said on stderr.
        """
        wait = _LOOK_FIRST_S
        while True:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # the second: only zombies are left
                os.killpg(self.pid, signal.SIGKILL)
            members = self._members() - self._spared
            if self.ended() and not members:
                code = self._process.wait()
                self._reap()
                if self._spared:
                    pids = ", ".join(map(str, sorted(self._spared)))
                    self._says(f"still running, since they belong to another user: {pids}")
                return code
            for member in members:
                try:
                    os.kill(member, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                except PermissionError:
                    self._spared.add(member)
            time.sleep(wait)  # noqa: TID251  nothing is left to do but this
            wait = min(wait * 2, _LOOK_MOST_S)

    def _members(self) -> set[int]:
        """The processes of the group that still live: zombies run no code any more."""
        if not _PROC.is_dir() or not (_PROC / "self").exists():
            return self._members_without_proc()
        parents: dict[int, int] = {}
        found = set()
        for entry in _PROC.iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_bytes()
                except OSError:
                    continue  # it has just ended
                # The name, in parentheses, may hold anything; what follows its last one has fixed fields.
                fields = stat.rpartition(b")")[2].split()
                (state, parent, group, session), threads = fields[:4], fields[17]
                if state not in {b"Z", b"X"} or int(threads) > 1:  # the first thread may end before others
                    pid = int(entry.name)
                    parents[pid] = int(parent)
                    if self.pid in {int(group), int(session)}:
                        found.add(pid)
        return found | _descendants(os.getpid(), parents)

    def _members_without_proc(self) -> set[int]:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return set()
        return set() if self.ended() and self._process.poll() is not None else {self.pid}


def adopt_orphans() -> None:
    """Makes this process a child subreaper: what its descendants leave without a parent becomes its child."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int = 0) -> None:
    """Has the kernel kill this process when its parent is dead: should it be frozen then, nobody else would in time.

    Args:
        parent: the parent's pid, where that may have died already; 0: it lives.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


def read_briefly(path: str) -> bytes:
    """The bytes of a short file of the system's.

    A new process copies each page that it touches first, and Python's own files touch 250: two ms of an isolated run.

    Raises:
        OSError: it can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 64 << 10), b""))
    finally:
        os.close(descriptor)


def children_of(pid: int) -> set[int]:
    """The processes that another one, with a single thread, has started, or has got as orphans; Linux only."""
    try:
        return {int(each) for each in read_briefly(f"/proc/{pid}/task/{pid}/children").split()}
    except FileNotFoundError:  # the kernel was built without that list
        found = set()
        for entry in _PROC.glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(entry.read_bytes().rpartition(b")")[2].split()[1]) == pid:
                    found.add(int(entry.parent.name))
        return found


def _descendants(pid: int, parents: Mapping[int, int]) -> set[int]:
    """All that a process has started, and what they have, by the parent of each process."""
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    found, left = set(), [pid]
    while left:
        more = children.get(left.pop(), [])
        found.update(more)
        left += more
    return found
