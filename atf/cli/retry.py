"""`atf retry`: failed or cancelled tasks again, by their ids; or all dead letters of a lambda that match a filter."""

from __future__ import annotations

from typing import Any

import click

from atf.client.gates import RedriveInfo, redrive_all
from atf.errors import FailedPrecondition, InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.rpc import task_pb2 as t
from atf.task import check_lambda, key_held
from atf.visible import one_line
from atf.whoami import whoami

from .bulk import agree, bulk_flags, must_be_asked
from .gate import labels_flag
from .options import as_json, frontend_flag, no_header, refuse_unused, why_flag
from .output import print_json, print_table, status_name
from .remote import ask
from .schedule import instant, pairs
from .tasks import batched, print_results, statuses

_OF_FILTER = ("labels", "error", "failed_from", "failed_until", "newer_version", "rate", "why")


@click.command()
@click.argument("ids", metavar="[TASK]...", nargs=-1)
@click.option(
    "--lambda",
    "lambda_name",
    metavar="LAMBDA",
    help="Instead of ids: all dead letters of LAMBDA that match what follows.",
)
@labels_flag
@click.option("--error", metavar="TEXT", help="Only tasks whose error contains this.")
@click.option("--failed-from", metavar="TIME", help="Only tasks that failed at this instant or later.")
@click.option("--failed-until", metavar="TIME", help="Only tasks that failed before this instant.")
@click.option(
    "--newer-version", is_flag=True, help="Only where the lambda's version is newer now than when the task failed."
)
@click.option("--rate", type=float, metavar="N", help="So many become due in a second.  [default: all at once]")
@why_flag
@bulk_flags
@frontend_flag
@as_json
@no_header
def retry(
    ids: tuple[str, ...],
    lambda_name: str | None,
    dry_run: bool,
    yes: bool,
    frontend: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Run failed or cancelled tasks again, now, with all their attempts: TASK by id, or the dead letters of a lambda.

    \b
    atf retry 3-Zk2q81
    atf retry --lambda shop/mail --error TimeoutError --dry-run      says which, and why they failed
    atf retry --lambda shop/mail --error TimeoutError --rate 5       five a second
    """
    if bool(ids) == (lambda_name is not None):
        raise InvalidArgument("name tasks by their ids, or give --lambda LAMBDA, and not both")
    if names := [each for each in ids if "/" in each]:
        raise InvalidArgument(
            f"{names[0]} is no task's id; for the dead letters of a lambda: atf retry --lambda {names[0]}"
        )
    if lambda_name is None:
        refuse_unused({**filters, "why": filters["why"] or None}, _OF_FILTER, "without --lambda")
        _by_id(ids, dry_run, yes, frontend, as_json)
    else:
        _by_filter(_request(lambda_name, filters), dry_run, yes, frontend, as_json)


def _by_id(ids: tuple[str, ...], dry_run: bool, yes: bool, frontend: str | None, as_json: bool) -> None:
    if dry_run:
        found = ask(frontend, lambda stub: statuses(stub, ids))
        results = [f.RetryResult(id=each, status=status) for each, status in found.items()]  # type: ignore[arg-type]
        again = {t.FATAL_FAILURE, t.CANCELLED}
        print_results(
            results,
            (),
            lambda r: "would be retried" if r.status in again else f"is {status_name(r.status)}",
            as_json,
        )
        return
    if len(ids) > 1:
        agree(f"Run {len(ids)} tasks again", yes=yes)
    results = ask(frontend, lambda stub: batched(ids, lambda some: stub.retry_tasks(f.RetryTasksRequest(ids=some))))
    print_results(
        results, ("retried", "held_by"), lambda r: "retried" if r.retried else f"is {status_name(r.status)}", as_json
    )
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
        rate=filters["rate"] or 0,
        who=whoami(),
        why=filters["why"],
    )
    setattr(request, "lambda", check_lambda(lambda_name))
    return request


def _by_filter(request: f.RedriveRequest, dry_run: bool, yes: bool, frontend: str | None, as_json: bool) -> None:
    name = getattr(request, "lambda")
    if not (dry_run or yes):
        must_be_asked()
    if dry_run or not yes:
        looking = f.RedriveRequest(dry_run=True)
        looking.MergeFrom(request)
        would = ask(frontend, lambda stub: redrive_all(looking, stub.redrive))
        if dry_run:
            such = f", such as {', '.join(would.ids)}" if would.ids else ""
            said = f"{name}: {would.matched} of {would.looked_at} dead letters match{such}; --yes runs them again"
            _print(name, would, said, dry_run=True, as_json=as_json)
            return
        agree(one_line(f"Run {would.matched} of {would.looked_at} dead letters of {name} again"), yes=yes)
    request.dry_run = False
    done = ask(frontend, lambda stub: redrive_all(request, stub.redrive))
    said = f"{name}: {done.redriven} of {done.looked_at} dead letters run again"
    _print(name, done, said, dry_run=False, as_json=as_json)


def _print(name: str, done: RedriveInfo, said: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "lambda": name,
                "dry_run": dry_run,
                "matched": done.matched,
                "retried": done.redriven,
                "looked_at": done.looked_at,
                "errors": dict(done.errors),
                "ids": list(done.ids),
            }
        )
        return
    print(one_line(said))
    print_table(["tasks", "error"], [(count, line) for line, count in done.errors.items()])
