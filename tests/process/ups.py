"""A running `atf up`, as a user starts it."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


class Up:
    """A running `atf up`."""

    def __init__(self, folder: Path, env: dict[str, str], *arguments: str, ui: bool = False) -> None:
        pages = [] if ui or "memory" in arguments else ["--no-ui"]
        command = [sys.executable, "-P", "-m", "atf.cli", "up", *arguments, *pages]
        self.log = folder / "up.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env={**env, "PYTHONFAULTHANDLER": "1"},
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def where(self) -> dict[str, Any]:
        """Where everything listens, once it is up. If it never is, the failure shows where each of its threads stood."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], 60)[0]:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(10)
        line = self.process.stdout.readline()
        assert line, self.log.read_text("utf-8")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self, number: signal.Signals) -> int:
        """Its exit code, once it has ended of a signal."""
        self.process.send_signal(number)
        return self.process.wait(60)

    def kill(self) -> None:
        """Ends it if it still runs."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
