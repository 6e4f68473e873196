"""Runs a process as another user than this one, and says what that user may read.

Needs only the standard library: a guard loads it, too.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from atf.errors import ConfigError

_NEEDED: Final = {"CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}
"""What starting, and later killing, a process of another user takes; by their numbers in <linux/capability.h>."""
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4


class OtherUser(NamedTuple):
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def environment(self) -> Mapping[str, str]:
        """What a login sets."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    @property
    def start(self) -> Mapping[str, Any]:
        """What subprocess.Popen takes, to start a process of this user that has no capability of this one."""
        return {"user": self.uid, "group": self.gid, "extra_groups": list(self.groups), "preexec_fn": _drop_ambient}

    def may_read(self, path: str) -> bool:
        """Whether the modes of a file and of the folders above it let this user read it."""
        file = Path(path).resolve()
        try:
            return self._has(file, os.R_OK) and all(self._has(each, os.X_OK) for each in file.parents)
        except OSError:
            return False

    def _has(self, path: Path, right: int) -> bool:
        found = path.stat()
        shift = 6 if found.st_uid == self.uid else 3 if found.st_gid in {self.gid, *self.groups} else 0
        return self.uid == 0 or bool(stat.S_IMODE(found.st_mode) >> shift & right)


def user_of(name: str) -> OtherUser | None:
    """The user that `executor_user` names; None: it is empty.

    Raises:
        ConfigError: there is none of that name.
    """
    if not name:
        return None
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(f"executor_user = {name[:80]!r}: this machine has no such user") from None
    groups = tuple(os.getgrouplist(name, found.pw_gid))
    return OtherUser(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)


def check_may_start(user: OtherUser) -> None:
    """Lets pass who can start and kill processes of that user.

    Raises:
        ConfigError: this process can't.
    """
    lacks = [] if os.geteuid() == 0 else sorted(_NEEDED)
    if lacks and sys.platform == "linux":
        has = _capabilities()
        lacks = [name for name, number in sorted(_NEEDED.items()) if not has >> number & 1]
    if lacks:
        raise ConfigError(
            f"executor_user = {user.name}: this process can't start others as another user; it lacks {', '.join(lacks)}. Start it as"
            " root, or with these as ambient capabilities, or leave executor_user out"
        )


def _capabilities() -> int:
    """What outlives an exec: guards need it, too."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapAmb:"):
            return int(line.split()[1], 16)
    return 0


def _drop_ambient() -> None:
    """In the process that is about to become the other user's: that user must not get what this one has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
