"""Says who this process acts for, as the audit log names them."""

from __future__ import annotations

import getpass
import socket
import sys
from pathlib import PurePath
from typing import Any, Final

MAX_CHARS: Final = 100


def whoami() -> str:
    """user@host, as far as either is known."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number that no list of users has
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:MAX_CHARS]


def signed(who: str = "", why: str = "") -> dict[str, Any]:
    """Who asks for a change and why, as fields of a request; a program that does not say who is user@host:program."""
    program = PurePath(sys.argv[0]).name
    if program in {"", "-c", "-m"}:
        program = "python"
    return {"who": who or f"{whoami()}:{program}"[:MAX_CHARS], "why": why}
