"""`atf failures`: what failed for good, those that failed alike together, and how to retry them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from atf.client.gates import failures_all
from atf.rpc import frontend_pb2 as f
from atf.sdk.messages import of_lambda
from atf.task import US
from atf.visible import one_line

from .json_values import message_json
from .options import any_lambda_argument, limit_flag, lists, option, wants_json
from .output import Columns, show_rows, when
from .remote import ask
from .task_filter import when_us

_FIELDS = "id lambda error_type place message count first_at_us last_at_us task_id"
_MESSAGE_CHARS = 60


@click.command()
@any_lambda_argument
@option("--since", "TIME", "Only what failed from this instant on, or since so long ago: 1h.")
@limit_flag
@lists
def failures(lambda_name: str, limit: int, since: str | None) -> None:
    """Say what failed for good, of LAMBDA, of a namespace as NAME/*, or of all. Tasks that failed by the same exception in the same function are together.

    \b
    atf failures --since 1h
    atf failures shop/mail
    """
    request = f.ListFailuresRequest(
        since_at_us=when_us(since, "--since", round(datetime.now(UTC).timestamp() * US)), **of_lambda(lambda_name)
    )
    columns: Columns[f.FailureGroup] = {
        "tasks": "count",
        "lambda": "lambda",
        "first": lambda each: when(each.first_at_us),
        "last": lambda each: when(each.last_at_us),
        "at": "place",
        "failed with": _failed_with,
        "show one, retry all": _commands,
    }
    found = ask(lambda stub: failures_all(stub.list_failures, request, limit))
    if not wants_json():
        if not found:
            of = f" of {lambda_name}" if lambda_name else ""
            print(
                one_line(f"no task{of} {'has failed for good' if since is None else 'failed for good since then'}"),
                file=sys.stderr,
            )
        elif len(found) >= limit:
            print(f"the first {limit}; --limit N shows more", file=sys.stderr)
    if sys.stdout.isatty() and not wants_json():
        for each in found:
            print(*map(one_line, _of_group(each)), sep="\n    ")
    else:
        show_rows(found, lambda each: message_json(each, _FIELDS), columns)


def _of_group(group: f.FailureGroup) -> tuple[str, ...]:
    """A group for a screen of 80 columns."""
    place = f"at {group.place}, " if group.place else ""
    return (
        f"{group.count} of {getattr(group, 'lambda')}: {_failed_with(group)}",
        f"{place}first {when(group.first_at_us)}, last {when(group.last_at_us)}",
        _commands(group),
    )


def _commands(group: f.FailureGroup) -> str:
    return f"atf get {group.task_id}; atf retry --group {group.id}"


def _failed_with(group: f.FailureGroup) -> str:
    """The type of the exception, and how the message of the newest begins."""
    line = group.message.partition("\n")[0]
    line = line if len(line) <= _MESSAGE_CHARS else line[: _MESSAGE_CHARS - 1] + "…"
    return ": ".join(filter(None, (group.error_type, line)))
