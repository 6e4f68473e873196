"""`atf executor`: this process becomes the guard of one worker. See guard.py; the worker's own process is worker_main.py."""

from __future__ import annotations

from collections.abc import Sequence

from atf.config import ExecutorSettings, LogSettings, Timing

from .guard import run


def main(
    settings: ExecutorSettings, timing: Timing, log: LogSettings, apps: Sequence[str], events_fd: int | None = None
) -> int:
    """Guards one worker until it ends.

    Args:
        settings, timing, log: of the executor.
        apps: MODULE:APP, whose lambdas it runs.
        events_fd: where to write what happens to the worker; see guard.run.

    Returns:
        The worker's exit code: 0 drained, 2 bad input, 75 heartbeats failed, 76 a lambda did not end; 128 + n for signal n.
    """
    return run(settings, timing, log, apps, events_fd)
