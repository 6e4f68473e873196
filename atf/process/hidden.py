"""Keeps secrets from other processes: from those that this one starts, and from others of the same user.

Linux lets processes of one user read each other's /proc/PID/mem and /proc/PID/environ, and trace each other. One that is not *dumpable* is left out
of that. Only root can look into it then; it leaves no core dump, and a debugger or profiler needs root as well. What it starts is as usual again.

Needs nothing: a guard loads it, too.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import MutableMapping
from typing import Final

_PR_SET_DUMPABLE: Final = 4
"""From <linux/prctl.h>."""


def hide_memory() -> None:
    """From now on only root looks into this process. Elsewhere than on Linux nothing changes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def take_token(env: MutableMapping[str, str]) -> str:
    """The token of an environment, which has neither that nor its file's name from then on: so no process that this one starts has them.

    Nor has it the task store's address, which a machine's environment may hold for other roles.
    """
    for name in ("ATF_TOKEN_FILE", "ATF_REDIS_URL", "ATF_REDIS_URL_FILE"):
        env.pop(name, None)
    return env.pop("ATF_TOKEN", "")


def pipe_with(secret: str) -> int:
    """The end of a pipe from which a process that is started can read a secret, once. Arguments and environments can be read by others, again and again."""
    read_end, write_end = os.pipe()
    os.write(write_end, secret.encode())
    os.close(write_end)
    return read_end
