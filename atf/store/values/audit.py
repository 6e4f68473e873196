"""An entry of the audit log, as the store keeps it and as a log line says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

DONE: Final = "done"
"""The outcome of a call that did what it was asked for."""


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What somebody did, to which lambdas and tasks."""

    what: str  # the call: set_gate, cancel_tasks, ...
    lambda_name: str = msgspec.field(name="name", default="")  # of several the first ones, with ", " between them
    labels: Mapping[str, str] = {}
    who: str = ""
    why: str = ""
    detail: str = ""  # for people
    tasks: Sequence[str] = ()  # all of them: a call changes MAX_BATCH at most
    task_count: int = 0
    outcome: str = DONE  # otherwise what went wrong, in a sentence
    number: int = 0  # which the store gives it
    at_us: int = 0  # likewise

    def logged(self) -> dict[str, Any]:
        """The fields of the event `audit`."""
        return {
            "what": self.what,
            "lambda": self.lambda_name,
            "labels": dict(self.labels),
            "tasks": list(self.tasks),
            "task_count": self.task_count,
            "who": self.who,
            "why": self.why,
            "detail": self.detail,
            "outcome": self.outcome,
        }
