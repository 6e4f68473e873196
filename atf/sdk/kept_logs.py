"""Of which runs a lambda's log is kept with the task: the words for it, as its code and an operator write them."""

from __future__ import annotations

from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t

KEPT_LOGS: Final = {"failed": t.LOGS_OF_FAILED, "all": t.LOGS_OF_ALL, "none": t.LOGS_OF_NONE}
"""By the word; the first is the default."""


def kept_logs_of(word: object) -> t.KeptLogs:
    """Of which runs the log is kept, by the word for it.

    Raises:
        InvalidArgument: there is no such word; says which there are.
    """
    if not isinstance(word, str) or word not in KEPT_LOGS:
        raise InvalidArgument("use failed (of runs that fail, the default), all (of every run) or none")
    return KEPT_LOGS[word]


def word_for(kept: int) -> str:
    """The word; a number where a newer release has one that is not known here."""
    return next((word for word, number in KEPT_LOGS.items() if number == kept), str(kept))


def check_kept_logs(kept: int) -> None:
    """What a lambda is registered with.

    Raises:
        InvalidArgument: there is no such number.
    """
    if kept not in KEPT_LOGS.values():
        raise InvalidArgument(f"logs {kept}: use LOGS_OF_FAILED (0), LOGS_OF_ALL (1) or LOGS_OF_NONE (2)")
