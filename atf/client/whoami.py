"""Says who this process acts for, as the audit log names them."""

from __future__ import annotations

import getpass
import socket
from typing import Final

MAX_CHARS: Final = 100


def whoami() -> str:
    """user@host, as far as either is known."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number that no list of users has
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:MAX_CHARS]
