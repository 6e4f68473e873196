"""Tells whoever started a process when it is ready, and by its exit code how it ended.

Needs nothing: a guard and a bare `atf` without its extras load it too. A process that signal n has ended has the code 128 + n.
"""

from __future__ import annotations

from typing import Final

READY_FD: Final = "ATF_READY_FD"
"""Names a file descriptor to which one line of JSON is written: {"role", "address", "pid"} once the role serves; or {"role", "error", "pid"}, why it
ends, where it never does."""

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
"""A command: the task failed. A role: a bug."""
EXIT_BAD_INPUT: Final = 2
EXIT_NOT_FOUND: Final = 3
EXIT_UNAVAILABLE: Final = 4
"""Something it needs is not there, or refuses it."""
EXIT_REFUSED: Final = 5
"""A command: who called shows no valid token, or may not do this."""

# Of an executor's worker only.
EXIT_FORKED: Final = 70
"""A lambda forked, and this child came back out of the lambda: it must not go on as an executor."""
EXIT_NO_HEARTBEAT: Final = 75
"""It can't keep its leases."""
EXIT_OVERRUN: Final = 76
"""A lambda did not end when it had to."""
