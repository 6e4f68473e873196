"""`atf retry`: failed or cancelled tasks again, by their ids, or all that match a filter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from atf.client.info import RedriveInfo
from atf.client.matching import redrive_all
from atf.client.whoami import signed, whoami
from atf.errors import FailedPrecondition, InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import check_lambda, key_held
from atf.visible import one_line

from .changes import batched, show_results, show_would
from .confirmation import confirm, require_terminal
from .matching import lambda_meant, name_of, told
from .options import bulk_flags, kept, lists, option, wants_json, why_flag
from .output import print_table, show
from .remote import ask
from .task_filter import filter_flags, task_filter
from .task_view import status_name

_SHOWN = 3
"""Ids in a hint."""
_BESIDE = ("lambda_name", "error", "newer_version", "rate")
"""Flags of all that match, beside those of the filter."""


@click.command()
@click.argument("ids", metavar="[TASK...|LAMBDA]", nargs=-1)
@option(
    "--lambda",
    "LAMBDA",
    "The same as LAMBDA: all of its tasks that failed for good and match what follows.",
    name="lambda_name",
)
@filter_flags
@option("--error", "TEXT", "Only tasks whose error contains this.")
@click.option(
    "--newer-version", is_flag=True, help="Only where the lambda's version is newer now than when the task failed."
)
@option("--rate", "N", "So many become due in a second.  [default: all at once]", float)
@why_flag
@bulk_flags
@lists
def retry(ids: tuple[str, ...], dry_run: bool, **flags: Any) -> None:
    """Run failed or cancelled tasks again, now, with all their attempts and the same arguments: TASK by id, or all of LAMBDA, of a namespace as NAME/*, or of all, that failed for good and match; with --status cancelled, those that were cancelled.

    \b
    atf retry 3-0a1b2c3d4e5f60718293a4b5
    atf retry --group 41c7b2d09e3a                       all that failed alike: see atf failures
    atf retry shop/mail --error TimeoutError --dry-run   says why they failed
    atf retry shop/mail --since 1h --rate 5              five a second
    """
    if flags["lambda_name"] is not None:
        if ids:
            raise InvalidArgument("give ids of tasks or one lambda, and not both")
        ids = (check_lambda(flags["lambda_name"]),)
    lambda_name = lambda_meant(ids, flags, _BESIDE)
    if lambda_name is None:
        _by_id(ids, flags["why"], dry_run)
    else:
        _by_filter(_request(lambda_name, flags), dry_run)


def _by_id(ids: tuple[str, ...], reason: str, dry_run: bool) -> None:
    if dry_run:
        again = {t.FATAL_FAILURE, t.CANCELLED}
        show_would(ids, lambda status: "would run again" if status in again else f"is {status_name(status)}")
        return
    confirm(f"Run {len(ids)} tasks again", many=len(ids) > 1)
    said = signed(whoami(), reason)
    results = ask(lambda stub: batched(ids, lambda some: stub.retry_tasks(f.RetryTasksRequest(ids=some, **said))))
    show_results(results, lambda r: "runs again" if r.retried else f"is {status_name(r.status)}", "retried held_by")
    done = [r.id for r in results if r.retried]
    if done:
        _hint(_wait_for(done))
    why = [f"{r.id}: {key_held(r.held_by)}" for r in results if r.held_by]
    others = [f"{r.id} is {status_name(r.status)}" for r in results if r.status and not (r.retried or r.held_by)]
    if others:
        why.append(f"only failed or cancelled tasks can be retried: {', '.join(others)}")
    if why:
        raise FailedPrecondition("; ".join(why))


def _request(lambda_name: str, flags: dict[str, Any]) -> f.RedriveRequest:
    if flags["rate"] == 0:
        raise InvalidArgument("--rate 0: give tasks a second, more than 0, or leave it out: then all start at once")
    if flags["error"] == "":
        raise InvalidArgument("--error '': give a text, or leave it out: then all errors count")
    return f.RedriveRequest(
        filter=task_filter(lambda_name, flags),
        error=flags["error"] or "",
        newer_version=flags["newer_version"],
        rate=flags["rate"] or 0,
        who=whoami(),
        why=flags["why"],
    )


def _by_filter(request: f.RedriveRequest, dry_run: bool) -> None:
    name, such_tasks = name_of(request.filter), _tasks(request.filter)
    require_terminal(many=not dry_run)
    if dry_run or not kept("yes"):
        looking = f.RedriveRequest(dry_run=True)
        looking.MergeFrom(request)
        would = ask(lambda stub: redrive_all(looking, stub.redrive, told()))
        if not (would.matched or wants_json()):
            print(one_line(f"{name}: none of {would.looked_at} {such_tasks} matches"))
            return
        if dry_run:
            such = f", such as {', '.join(would.ids)}" if would.ids else ""
            said = f"{name}: {would.matched} of {would.looked_at} {such_tasks} match{such}; without --dry-run they run again"
            show(_json(request, would, dry_run), said)
        if not wants_json():
            _print_errors(would)
        if dry_run:
            return
        confirm(f"Run {would.matched} of {would.looked_at} {such_tasks} of {name} again")
    request.dry_run = False
    done = ask(lambda stub: redrive_all(request, stub.redrive, told()))
    show(_json(request, done, dry_run), f"{name}: {done.redriven} of {done.looked_at} {such_tasks} run again")
    if done.redriven:
        some = len(done.ids) < done.redriven and getattr(request.filter, "lambda")
        _hint(f"atf lambda {some}" if some and not some.endswith("/*") else _wait_for(done.ids))


def _tasks(asked: f.TaskFilter) -> str:
    """Which tasks are looked at."""
    cancelled = t.CANCELLED in asked.statuses
    failed = t.FATAL_FAILURE in asked.statuses or not cancelled
    return "failed or cancelled tasks" if cancelled and failed else "cancelled tasks" if cancelled else "failed tasks"


def _json(request: f.RedriveRequest, done: RedriveInfo, dry_run: bool) -> dict[str, Any]:
    return {
        "lambda": getattr(request.filter, "lambda"),
        "group": request.filter.failure_group,
        "dry_run": dry_run,
        "matched": done.matched,
        "retried": done.redriven,
        "looked_at": done.looked_at,
        "errors": dict(done.errors),
        "ids": list(done.ids),
    }


def _print_errors(would: RedriveInfo) -> None:
    """Why they failed: one line for all of a type, since most messages name what differs from task to task."""
    messages: dict[str, list[str]] = {}
    for line in would.errors:
        messages.setdefault(line.partition(": ")[0], []).append(line)
    rows = [
        (
            sum(would.errors[line] for line in lines),
            lines[0] + (" (the messages of the others differ)" if len(lines) > 1 else ""),
        )
        for lines in messages.values()
    ]
    rows.sort(key=lambda row: -row[0])
    if others := would.matched - sum(count for count, _ in rows):  # the answer has the most frequent messages alone
        rows.append((others, "other messages"))
    print_table(["tasks", "failed with"], rows)


def _wait_for(ids: Sequence[str]) -> str:
    return " ".join(["atf wait", *ids[:_SHOWN], *["..."] * (len(ids) > _SHOWN)])


def _hint(command: str) -> None:
    if sys.stdout.isatty() and not wants_json():
        print(one_line(f"see how that ends: {command}"))
