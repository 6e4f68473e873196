"""What the verbs about ordering and concurrency keys answer."""

from __future__ import annotations

import enum
from typing import NamedTuple


class KeyRecord(NamedTuple):
    """An ordering key of a lambda."""

    key: str
    stopped_at_us: int  # 0: it has not stopped
    task_id: str  # at which it has stopped, or the first of its unfinished ones
    error: str  # of that one's last failure
    unfinished: int  # tasks of it


class SlotsRecord(NamedTuple):
    """A concurrency key of a lambda."""

    key: str
    taken: int  # slots
    limit: int  # of the task that has waited longest, else of the one that has held its slot longest
    waiting: int  # tasks


class KeyAnswer(enum.IntEnum):
    """What an attempt to have a stopped key go on came to."""

    NOT_STOPPED = 0
    DONE = 1
    WITHOUT = 2  # the task that stopped it can't be started afresh any more; what is behind it goes on
    ANOTHER = 3  # it has stopped at another task than the one given; nothing was done
    HELD = 4  # another task, the one that is named, holds the unique key of the task that stopped it; nothing was done


class MendedKey(NamedTuple):
    """The answer to resume_key or skip_key."""

    mended: KeyAnswer
    task_id: str  # that stopped it
