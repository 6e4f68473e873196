"""`atf retry`: failed or cancelled tasks again, by their ids; or all that failed for good, of a lambda or a group of failures, and match a filter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from atf.client.gates import redrive_all
from atf.client.info import RedriveInfo
from atf.client.whoami import signed, whoami
from atf.errors import FailedPrecondition, InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import check_lambda, key_held
from atf.visible import one_line

from .changes import batched, show_results, show_would
from .confirmation import confirm, require_terminal
from .gate import labels_flag
from .options import bulk_flags, instant, kept, lists, option, pairs, refuse_unused, wants_json, why_flag
from .output import print_table, show
from .remote import ask
from .task_view import status_name

_SHOWN = 3
"""Ids in a hint."""
_OF_FILTER = ("group", "labels", "error", "failed_from", "failed_until", "newer_version", "rate")


@click.command()
@click.argument("ids", metavar="[TASK...|LAMBDA]", nargs=-1)
@option(
    "--lambda",
    "LAMBDA",
    "The same as LAMBDA: all of its tasks that failed for good and match what follows.",
    name="lambda_name",
)
@option("--group", "GROUP", "Only failures of this group, as atf failures names it; its lambda may be left out.")
@labels_flag
@option("--error", "TEXT", "Only tasks whose error contains this.")
@option("--failed-from", "TIME", "Only tasks that failed at this instant or later.")
@option("--failed-until", "TIME", "Only tasks that failed before this instant.")
@click.option(
    "--newer-version", is_flag=True, help="Only where the lambda's version is newer now than when the task failed."
)
@option("--rate", "N", "So many become due in a second.  [default: all at once]", float)
@why_flag
@bulk_flags
@lists
def retry(ids: tuple[str, ...], lambda_name: str | None, dry_run: bool, **filters: Any) -> None:
    """Run failed or cancelled tasks again, now, with all their attempts and the same arguments: TASK by id, or all of LAMBDA, or of a group of failures, that failed for good.

    \b
    atf retry 3-0a1b2c3d4e5f60718293a4b5
    atf retry --group 41c7b2d09e3a                       all that failed alike: see atf failures
    atf retry shop/mail --error TimeoutError --dry-run   says why they failed
    atf retry shop/mail --error TimeoutError --rate 5    five a second
    """
    first, *more = ids or ("",)
    if "/" in first and not more and lambda_name is None:
        ids, lambda_name = (), first
    if not ids and lambda_name is None:
        if filters["group"] is None:
            raise InvalidArgument("give ids of tasks, one lambda, or a --group of atf failures")
        lambda_name = ""
    if ids and lambda_name is not None:
        raise InvalidArgument("give ids of tasks or one lambda, and not both")
    if names := [each for each in ids if "/" in each]:
        raise InvalidArgument(f"{names[0]} is a lambda: give it alone")
    if lambda_name is None:
        refuse_unused(filters, _OF_FILTER, "beside ids of tasks")
        _by_id(ids, filters["why"], dry_run)
    else:
        _by_filter(_request(lambda_name, filters), dry_run)


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


def _request(lambda_name: str, filters: dict[str, Any]) -> f.RedriveRequest:
    if filters["rate"] == 0:
        raise InvalidArgument("--rate 0: give tasks a second, more than 0, or leave it out: then all start at once")
    if filters["error"] == "":
        raise InvalidArgument("--error '': give a text, or leave it out: then all errors count")
    since, until = filters["failed_from"], filters["failed_until"]
    request = f.RedriveRequest(
        labels=pairs(filters["labels"], "--label"),
        error=filters["error"] or "",
        failed_from_at_us=instant(since, "--failed-from") if since is not None else 0,
        failed_until_at_us=instant(until, "--failed-until") if until is not None else 0,
        newer_version=filters["newer_version"],
        failure_group=filters["group"] or "",
        rate=filters["rate"] or 0,
        who=whoami(),
        why=filters["why"],
    )
    if lambda_name or not request.failure_group:
        setattr(request, "lambda", check_lambda(lambda_name))
    return request


def _by_filter(request: f.RedriveRequest, dry_run: bool) -> None:
    name = getattr(request, "lambda") or f"group {request.failure_group}"
    require_terminal(many=not dry_run)
    if dry_run or not kept("yes"):
        looking = f.RedriveRequest(dry_run=True)
        looking.MergeFrom(request)
        would = ask(lambda stub: redrive_all(looking, stub.redrive))
        if not (would.matched or wants_json()):
            print(one_line(f"{name}: none of {would.looked_at} failed tasks matches"))
            return
        if dry_run:
            such = f", such as {', '.join(would.ids)}" if would.ids else ""
            said = f"{name}: {would.matched} of {would.looked_at} failed tasks match{such}; without --dry-run they run again"
            show(_json(request, would, dry_run), said)
        if not wants_json():
            _print_errors(would)
        if dry_run:
            return
        confirm(f"Run {would.matched} of {would.looked_at} failed tasks of {name} again")
    request.dry_run = False
    done = ask(lambda stub: redrive_all(request, stub.redrive))
    show(_json(request, done, dry_run), f"{name}: {done.redriven} of {done.looked_at} failed tasks run again")
    if done.redriven:
        some = len(done.ids) < done.redriven and getattr(request, "lambda")
        _hint(f"atf lambda {some}" if some else _wait_for(done.ids))


def _json(request: f.RedriveRequest, done: RedriveInfo, dry_run: bool) -> dict[str, Any]:
    return {
        "lambda": getattr(request, "lambda"),
        "group": request.failure_group,
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
