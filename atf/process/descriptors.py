"""Says it in the log when a process has used up its file descriptors.

Every connection, file and pipe takes one. When none is left, connections fail as if whoever is at the other end were away; so the places
where that happens ask `is_out_of_descriptors`, and say `sentence`. `watch` says it also where a library keeps it to itself, as gRPC does that can
accept no connection.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, Protocol

from atf.errors import message_of

if TYPE_CHECKING:
    from atf.runtime import Runtime

LOOK_S: Final = 1.0
"""Seconds between two looks; each is two system calls."""
SAY_AGAIN_S: Final = 60.0
"""Seconds between two lines that say it."""
SPARE: Final = 64
"""So few that are left count as none. A server takes no connection beyond them (caller_limits.py): the process has to reach its store."""
_NUMBERS: Final = frozenset({errno.EMFILE, errno.ENFILE})
_WORDS: Final = (os.strerror(errno.EMFILE), os.strerror(errno.ENFILE))
"""Libraries keep the text of the system's error, and lose its number."""


class ErrorLog(Protocol):
    """What takes a line of an operator's log; atf.log.Logger is one."""

    def error(self, event: str, **fields: object) -> None: ...


def is_out_of_descriptors(error: BaseException | str) -> bool:
    """Whether an error, or what caused it, says that no file descriptors are left."""
    seen: BaseException | str | None = error
    for _ in range(10):
        if seen is None:
            return False
        if isinstance(seen, OSError) and seen.errno in _NUMBERS:
            return True
        text = seen if isinstance(seen, str) else message_of(seen)
        if any(each in text for each in _WORDS):
            return True
        seen = None if isinstance(seen, str) else seen.__cause__ or seen.__context__
    return False


def sentence() -> str:
    """That this process has used up its file descriptors, and what to do."""
    return (
        f"process {os.getpid()} has used up its {_limit()} file descriptors: raise the limit"
        " (`ulimit -n`, LimitNOFILE= of systemd, --ulimit nofile=N of docker; host-wide: fs.file-max)"
    )


def error_text(error: BaseException) -> str:
    """An error as text; with what to do, if it says that no file descriptors are left."""
    text = message_of(error)
    return f"{text}; {sentence()}" if is_out_of_descriptors(error) and "file descriptors" not in text else text


def has_no_descriptors() -> bool:
    """Whether this process can open next to nothing more."""
    try:
        number = os.open(os.devnull, os.O_RDONLY)
    except OSError as error:
        return error.errno in _NUMBERS
    os.close(number)
    limit = _limit()
    return 0 < limit <= number + SPARE  # it is the lowest that is free


async def watch(runtime: Runtime, log: ErrorLog) -> None:
    """Says when this process has used up its file descriptors, once a minute while that lasts; until cancelled."""
    import asyncio  # here: a guard needs the sentences alone

    said_at: float | None = None
    while True:
        now = runtime.monotonic()
        if (said_at is None or now - said_at >= SAY_AGAIN_S) and has_no_descriptors():
            log.error("out of file descriptors", error=sentence())
            said_at = now
        await asyncio.sleep(LOOK_S)


def _limit() -> int:
    """How many this process may have; 0: that can't be told."""
    try:
        import resource
    except ImportError:  # no Unix
        return 0
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
