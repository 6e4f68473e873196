"""`atf redrive`: the dead letters of a lambda again, by a filter; it says first what it would do."""

from __future__ import annotations

import click

from atf.client.gates import redrive_all
from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.visible import one_line
from atf.whoami import whoami

from .gate import labels_flag
from .options import as_json, frontend_flag, why_flag
from .output import print_json, print_table
from .remote import ask
from .schedule import instant, pairs


@click.command()
@click.argument("lambda_name", metavar="LAMBDA")
@click.option("--go", is_flag=True, help="Do it. Without, it only says what it would do.")
@labels_flag
@click.option("--error", metavar="TEXT", help="Only tasks whose error contains this.")
@click.option("--failed-from", metavar="TIME", help="Only tasks that failed at this instant or later.")
@click.option("--failed-until", metavar="TIME", help="Only tasks that failed before this instant.")
@click.option(
    "--newer-version", is_flag=True, help="Only where the lambda's version is newer now than when the task failed."
)
@click.option("--rate", type=float, metavar="N", help="So many become due in a second.  [default: all at once]")
@why_flag
@frontend_flag
@as_json
def redrive(
    lambda_name: str,
    go: bool,
    labels: tuple[str, ...],
    error: str | None,
    failed_from: str | None,
    failed_until: str | None,
    newer_version: bool,
    rate: float | None,
    why: str,
    frontend: str | None,
    as_json: bool,
) -> None:
    """Start the dead letters of LAMBDA afresh, with all their attempts. Without --go nothing is started."""
    if rate == 0:
        raise InvalidArgument("--rate 0: give tasks a second, more than 0, or leave it out: then all start at once")
    if error == "":
        raise InvalidArgument("--error '': give a text, or leave it out: then all errors count")
    request = f.RedriveRequest(
        labels=pairs(labels, "--label"),
        error=error or "",
        failed_from_at_us=instant(failed_from, "--failed-from") if failed_from is not None else 0,
        failed_until_at_us=instant(failed_until, "--failed-until") if failed_until is not None else 0,
        newer_version=newer_version,
        rate=rate or 0,
        dry_run=not go,
        who=whoami(),
        why=why,
    )
    setattr(request, "lambda", lambda_name)
    done = ask(frontend, lambda stub: redrive_all(request, stub.redrive))
    if as_json:
        print_json(
            {
                "lambda": lambda_name,
                "dry_run": not go,
                "matched": done.matched,
                "redriven": done.redriven,
                "looked_at": done.looked_at,
                "errors": dict(done.errors),
                "ids": list(done.ids),
            }
        )
        return
    of = f"of {done.looked_at} dead letters"
    if go:
        print(one_line(f"{lambda_name}: {done.redriven} {of} start afresh"))
    else:
        print(
            one_line(
                f"{lambda_name}: {done.matched} {of} match, such as {', '.join(done.ids) or 'none'}; --go starts them"
            )
        )
    print_table(["tasks", "error"], [(count, line) for line, count in done.errors.items()])
