"""`atf audit`: who did what to which tasks and lambdas, when and why."""

from __future__ import annotations

import time
from typing import Any

import click

from atf.client.gates import audit_all
from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.durations import seconds_of
from atf.task import US

from .json_values import message_json
from .options import any_lambda_argument, instant, limit_flag, lists, option
from .output import Columns, show_rows, when
from .remote import ask

_FIELDS = "number at_us what lambda labels tasks task_count who why detail outcome"


@click.command()
@any_lambda_argument
@option("--who", "WHO", "Only what this one did, as the column `by` has it.")
@option("--what", "CALL", "Only calls of this name, such as cancel_tasks or set_gate.")
@option("--task", "TASK", "Only calls that changed this task.", name="task_id")
@option("--since", "TIME", "Only from this instant on, or from so long ago: 2030-01-31T08:00, 1h, 30m.")
@option("--until", "TIME", "Only before this instant, or before so long ago.")
@limit_flag
@lists
def audit(lambda_name: str, limit: int, since: str | None, until: str | None, **only: Any) -> None:
    """Who did what to LAMBDA and its tasks, or to all, when and why; newest first.

    The store keeps the newest 10,000 entries; the frontends' logs have all, as the event `audit`.
    """
    request = f.ListAuditRequest(
        since_at_us=_bound(since, "--since"),
        until_at_us=_bound(until, "--until"),
        **{"lambda": lambda_name, **only},
    )
    columns: Columns[f.AuditEntry] = {
        "at": lambda each: when(each.at_us),
        "by": "who",
        "what": "what",
        "lambda": "lambda",
        "labels": lambda each: ", ".join(f"{name}={each.labels[name]}" for name in sorted(each.labels)),
        "tasks": _tasks,
        "detail": "detail",
        "outcome": lambda each: "" if each.outcome == "done" else each.outcome,
        "because": "why",
    }
    found = ask(lambda stub: audit_all(stub.list_audit, request, limit))
    show_rows(found, lambda each: message_json(each, _FIELDS), columns)


def _tasks(entry: f.AuditEntry) -> str:
    """The first task, and how many more there are."""
    first = entry.tasks[0] if entry.tasks else ""
    return f"{first} and {entry.task_count - 1} more" if entry.task_count > 1 else first


def _bound(text: str | None, flag: str) -> int:
    """An instant in µs, from how people write it or how long ago it was; 0: none was given."""
    if text is None:
        return 0
    ago = seconds_of(text)
    if ago is None:
        return instant(text, flag)
    if ago < 0:
        raise InvalidArgument(f"{flag} {text!r}: say how long ago, more than 0")
    return max(1, round((time.time() - ago) * US))
