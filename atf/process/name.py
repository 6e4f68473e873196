"""By what name a process is listed among those of its role."""

from __future__ import annotations

import os
import platform


def process_name() -> str:
    """Of this process: <host>:<pid>."""
    return f"{platform.node()[:64]}:{os.getpid()}"
