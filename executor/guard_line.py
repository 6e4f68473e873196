"""What a guard says on its own: one line, in the form of the role's log (atf/log.py), without what that would load."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from atf.config.settings import LogSettings


def say(logs: LogSettings, event: str, *, executor: str = "") -> None:
    """Says an error.

    Args:
        logs: the format; a terminal's is text, as is `console`.
        event: what has happened.
        executor: its id; empty: there is none yet.
    """
    if logs.log_format == "console" or (logs.log_format == "auto" and sys.stderr.isatty()):
        sys.stderr.write(f"executor {executor}: {event}\n" if executor else f"executor: {event}\n")
        return
    line = {"role": "executor", "pid": os.getpid(), "event": event, "level": "error"}
    line |= {"executor": executor} if executor else {}
    line["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")  # noqa: TID251  as a line of the log has it
    sys.stderr.write(json.dumps(line) + "\n")
