"""Reads and writes the logs that are kept with tasks, in the form of lua/shared/kept_log.lua."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from atf.errors import Internal
from atf.store.servers.sockets import Arg
from atf.task import US, Status

from .partitions import Partitions
from .values.claims import KeptRunLog

_HEAD: Final = re.compile(rb"(\d+) (\d+) (\d+) (\d+)\n")


class TaskLog(NamedTuple):
    """What is kept of what a task's runs said."""

    status: Status
    lambda_name: str
    runs: list[KeptRunLog]
    """The newest, oldest first."""


class LogVerbs(Partitions):
    """The verbs of Store about logs."""

    async def get_log(self, task_id: str) -> TaskLog | None:
        """What is kept; None where there is no such task."""
        return _task_log(task_id, await self._call("get_log", self._partition(task_id), [task_id]))

    async def watch_log(self, task_id: str, seconds: float) -> TaskLog | None:
        """The same; and for so long the task's executor says with its heartbeats what a run says, and the task's end is notified."""
        args: list[Arg] = [task_id, round(seconds * US)]
        return _task_log(task_id, await self._call("watch_log", self._partition(task_id), args))


def log_entry(log: KeptRunLog) -> bytes:
    """A run's log as the store keeps it."""
    text = log.text.encode()
    return b"%d %d %d %d\n%s" % (log.run, log.attempt, log.cut_bytes, len(text), text)


def run_logs(kept: bytes) -> list[KeptRunLog]:
    """The logs of a task's field.

    Raises:
        ValueError: somebody has damaged it.
    """
    found, at = [], 0
    while at < len(kept):
        head = _HEAD.match(kept, at)
        if head is None:
            raise ValueError("no entry begins here")
        run, attempt, cut_bytes, size = map(int, head.groups())
        at = head.end() + size
        found.append(KeptRunLog(run, attempt, kept[head.end() : at].decode("utf-8", "replace"), cut_bytes))
    return found


def _task_log(task_id: str, reply: list[bytes]) -> TaskLog | None:
    if not reply:
        return None
    status, queue, kept = reply
    try:
        return TaskLog(Status[status.decode()], queue.decode().rpartition(":")[0], run_logs(kept))
    except (ValueError, LookupError):
        raise Internal(f"the log of {task_id} can't be read: has somebody written into the task store?") from None
