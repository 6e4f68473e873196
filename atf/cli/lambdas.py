"""Commands on lambdas and their queues: lambda (ls, show, set, unset, rm, register, check), queue."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from atf.client.cluster import delete_lambda
from atf.client.left_jobs import left_jobs
from atf.client.registration import every_lambda, listed, register_lambdas
from atf.client.whoami import whoami
from atf.config.settings import ExecutorSettings
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.sdk.lambdas import Lambda
from atf.visible import one_line

from . import payload_check
from .confirmation import bulk_flags, confirm, require_terminal
from .nouns import Noun
from .options import as_json, frontend_flag, no_header, refuse_unused, why_flag
from .output import lambda_json, print_fields, print_json, print_table, queue_json, settings_json
from .remote import ask


@click.group("lambda", cls=Noun)
def lambda_() -> None:
    """The registered lambdas; without a further word, list them."""


@lambda_.command("ls")
@click.argument("lambda_name", metavar="[LAMBDA]", default="")
@frontend_flag
@as_json
@no_header
def ls(lambda_name: str, frontend: str | None, as_json: bool) -> None:
    """List the registered lambdas, or LAMBDA, with the numbers of their tasks."""
    reply = ask(frontend, lambda stub: listed(stub, lambda_name))
    if as_json:
        print_json([lambda_json(info) for info in reply.lambdas])
        return
    rows = [
        (
            info.spec.name,
            "paused" if info.paused else "",
            info.counts.get("NEW", 0),
            info.counts.get("ENQUEUED", 0),
            info.counts.get("CLAIMED", 0) + info.counts.get("PROCESSING", 0),
            info.counts.get("RETRIABLE_FAILURE", 0),
            info.counts.get("SUCCESS", 0),
            info.counts.get("FATAL_FAILURE", 0),
            info.counts.get("CANCELLED", 0),
        )
        for info in reply.lambdas
    ]
    print_table(["lambda", "state", "new", "queued", "running", "to retry", "succeeded", "failed", "cancelled"], rows)
    _say_pause(reply)


@lambda_.command()
@click.argument("lambda_name", metavar="LAMBDA")
@frontend_flag
@as_json
def show(lambda_name: str, frontend: str | None, as_json: bool) -> None:
    """Show what holds of LAMBDA: what its code says, and before that what was set."""
    reply = ask(frontend, lambda stub: stub.list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": lambda_name})))
    _print_settings(reply.lambdas[0], as_json)


@lambda_.command("set")
@click.argument("lambda_name", metavar="LAMBDA")
@click.argument("settings", metavar="NAME=VALUE...", nargs=-1, required=True)
@frontend_flag
@as_json
def set_(lambda_name: str, settings: tuple[str, ...], frontend: str | None, as_json: bool) -> None:
    """Set what goes before what the code of LAMBDA says, until it is unset; within a second it holds everywhere.

    The names are those of @app.task: rate, burst, max_running, max_pending, queue_limit, enqueue_timeout (seconds), shares
    (high:0.5,low:0.1), pool, placement (any, sticky, spread), stop_on_fatal (yes, no), gate_at_fatal, owner, runbook. The value
    "none" lifts a bound that the code has; of pool, "default" is that of the hosts which were given none.
    """
    pairs = [each.partition("=") for each in settings]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.UsageError(f"{name!r}: write NAME=VALUE, such as rate=100")
    _change(f.SetLambdaRequest(set={name: value for name, _, value in pairs}), lambda_name, frontend, as_json)


@lambda_.command()
@click.argument("lambda_name", metavar="LAMBDA")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@frontend_flag
@as_json
def unset(lambda_name: str, names: tuple[str, ...], frontend: str | None, as_json: bool) -> None:
    """Have settings of LAMBDA as its code says again; "all": every one."""
    _change(f.SetLambdaRequest(unset=names), lambda_name, frontend, as_json)


def _change(request: f.SetLambdaRequest, lambda_name: str, frontend: str | None, as_json: bool) -> None:
    setattr(request, "lambda", lambda_name)
    _print_settings(ask(frontend, lambda stub: stub.set_lambda(request)), as_json)


def _print_settings(info: f.LambdaInfo, as_json: bool) -> None:
    shown = settings_json(info)
    if as_json:
        print_json(shown)
        return
    facts: list[tuple[str, object]] = [("name", info.spec.name), ("", "paused" if info.paused else "")]
    for name, value in shown["settings"].items():
        held = value or info.overrides.get(name, value)  # of a bound that was lifted, the word for it
        code = shown["code"][name] or "nothing"
        facts.append((name, f"{held} (set; the code says {code})" if name in info.overrides else held))
    print_fields(facts)


@lambda_.command()
@click.argument("lambda_name", metavar="LAMBDA")
@click.option("--cancel-waiting", is_flag=True, help="Cancel its tasks that wait; asks before.")
@why_flag
@bulk_flags
@frontend_flag
@as_json
def rm(
    lambda_name: str, cancel_waiting: bool, why: str, dry_run: bool, yes: bool, frontend: str | None, as_json: bool
) -> None:
    """Forget LAMBDA, which no code has any more. Its dead letters stay until their retention is over.

    Refused while live workers run it, while tasks of it wait or run, and while a job names it.
    """
    request = f.DeleteLambdaRequest(cancel_waiting=cancel_waiting, dry_run=True, who=whoami(), why=why)
    setattr(request, "lambda", lambda_name)
    if cancel_waiting and not (dry_run or yes):
        require_terminal()
    waiting = ask(frontend, lambda stub: stub.delete_lambda(request)).waiting
    cancelled = 0
    if not dry_run:
        if waiting:
            confirm(one_line(f"Cancel {waiting} tasks of {lambda_name}, and forget it"), yes=yes)
        request.dry_run = False
        cancelled = ask(frontend, lambda stub: delete_lambda(stub.delete_lambda, request))
    if as_json:
        print_json({"lambda": lambda_name, "dry_run": dry_run, "waiting": waiting, "cancelled": cancelled})
    elif dry_run:
        print(one_line(f"{lambda_name} would be forgotten" + (f", and {waiting} tasks cancelled" if waiting else "")))
    else:
        print(one_line(f"{lambda_name} is forgotten" + (f", {cancelled} tasks were cancelled" if cancelled else "")))


@lambda_.command()
@click.argument("apps", metavar="MODULE:APP...", nargs=-1, required=True)
@click.option("--prune", is_flag=True, help="Delete the jobs that code in these namespaces has made and has no more.")
@bulk_flags
@frontend_flag
@as_json
@no_header
def register(apps: tuple[str, ...], prune: bool, dry_run: bool, yes: bool, frontend: str | None, as_json: bool) -> int:
    """Make the lambdas of an app known, and ATF's own, so that tasks can be scheduled before an executor runs.

    Jobs that an earlier code of the namespaces declared, and this one does not, are named. They go on; --prune deletes them, but for those
    whose lambda live workers still run: they may be another app's.
    """
    from atf.cli.local.user_code import run_in_child

    refuse_unused({"yes": yes}, ("yes",) if not prune else (), "without --prune")
    return run_in_child(apps, lambda loaded: _register(loaded, prune, dry_run, yes, frontend, as_json))


def _register(
    loaded: Mapping[str, Lambda[..., Any]], prune: bool, dry_run: bool, yes: bool, frontend: str | None, as_json: bool
) -> int:
    from atf.builtin import with_builtins

    specs = [each.spec() for each in with_builtins(loaded, ExecutorSettings()).values()]
    if not dry_run:
        for warning in ask(frontend, lambda stub: register_lambdas(stub, specs)):
            print(f"atf: warning: {one_line(warning)}", file=sys.stderr)
    _say_left(loaded, prune, dry_run, yes, frontend)
    _print_specs(specs, as_json)
    return EXIT_OK


def _say_left(
    loaded: Mapping[str, Lambda[..., Any]], prune: bool, dry_run: bool, yes: bool, frontend: str | None
) -> None:
    """Names the jobs that have left the code, and deletes them where that was asked for."""
    declared = {each.job.name for each in loaded.values() if each.job is not None}
    namespaces = {name.partition("/")[0] for name in loaded}
    left = ask(frontend, lambda stub: left_jobs(stub, declared, namespaces))
    kept = set(left) & ask(frontend, _served) - loaded.keys() if left else set()
    gone = [each for each in left if each not in kept]
    for name in left:
        then = "live workers still run its lambda" if name in kept else "--prune deletes it"
        then = "it would be deleted" if prune and dry_run and name in gone else then
        said = f"the job {name} is not in the code any more, and goes on: {then}"
        if name in kept or not prune or dry_run:
            print(f"atf: warning: {one_line(said)}", file=sys.stderr)
    if prune and gone and not dry_run:
        confirm(one_line(f"Delete {len(gone)} jobs that are not in the code any more ({', '.join(gone)})"), yes=yes)
        for name in gone:
            ask(frontend, lambda stub, name=name: stub.delete_job(f.DeleteJobRequest(name=name)))  # type: ignore[misc]
            print(f"atf: deleted the job {one_line(name)}", file=sys.stderr)


async def _served(stub: api.Frontend) -> set[str]:
    """The lambdas that live workers run."""
    return {info.spec.name for info in await every_lambda(stub) if info.served}


@lambda_.command()
@click.argument("apps", metavar="MODULE:APP...", nargs=-1, required=True)
@click.option(
    "--against",
    metavar="HOST:PORT",
    help="the frontend of a cluster: say which of its waiting tasks the app can't read",
)
@as_json
@no_header
def check(apps: tuple[str, ...], against: str | None, as_json: bool) -> int:
    """Import an app as an executor would, and list its lambdas; nothing is registered.

    With --against, before a deploy: read every unfinished task, job and callback of a cluster's batches in the namespaces of the app, and
    say which payloads this code does not take, and why. Exits with 1 where some do not fit. It changes nothing.
    """
    from atf.cli.local.user_code import run_in_child

    return run_in_child(apps, lambda loaded: _check(loaded, against, as_json))


def _check(loaded: Mapping[str, Lambda[..., Any]], against: str | None, as_json: bool) -> int:
    if against is None:
        _print_specs([each.spec() for each in loaded.values()], as_json)
        return EXIT_OK
    found = ask(against, lambda stub: payload_check.check_payloads(stub, loaded, payload_check.on_terminal))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    unfit = found.unfit()
    if as_json:
        print_json({"read": found.looked_at, "unfit": [_unfit_json(each) for each in unfit]})
    elif unfit:
        rows = [(each.lambda_name, f"{each.number} {each.what}", each.example, each.why) for each in unfit]
        print_table(["lambda", "do not fit", "for example", "why"], rows)
    else:
        print(f"all fit: {found.looked_at} payloads were read")
    return EXIT_FAILED if unfit else EXIT_OK


def _unfit_json(unfit: payload_check.Unfit) -> dict[str, Any]:
    return {
        "lambda": unfit.lambda_name,
        "what": unfit.what,
        "count": unfit.number,
        "example": unfit.example,
        "why": unfit.why,
    }


def _print_specs(specs: list[f.LambdaSpec], as_json: bool) -> None:
    if as_json:
        print_json([{"name": spec.name, "signature": spec.signature} for spec in specs])
    else:
        print_table(["lambda", "signature"], [(spec.name, spec.signature) for spec in specs])


@click.group(cls=Noun)
def queue() -> None:
    """The queues; without a further word, list them."""


@queue.command("ls")
@click.argument("lambda_name", metavar="[LAMBDA]", required=False)
@frontend_flag
@as_json
@no_header
def queue_ls(lambda_name: str | None, frontend: str | None, as_json: bool) -> None:
    """List the queues of LAMBDA, or of every lambda, with their lengths."""
    reply = ask(frontend, lambda stub: listed(stub, lambda_name or ""))
    found = [(info.spec.name, queue) for info in reply.lambdas for queue in info.queues]
    found.sort(key=lambda pair: (pair[0], pair[1].priority, pair[1].partition))
    if as_json:
        paused = reply.claims_paused or None
        print_json([{"lambda": name, **queue_json(queue), "claims_paused": paused} for name, queue in found])
    else:
        rows = [(queue.name, name, queue.priority, queue.depth, queue.limit) for name, queue in found]
        print_table(["queue", "lambda", "priority", "waiting", "limit"], rows)
        _say_pause(reply)


def _say_pause(reply: f.ListLambdasReply) -> None:
    """Says on stderr that no task starts: the table on stdout is for programs, too."""
    if reply.claims_paused:
        click.echo(one_line(reply.claims_paused), err=True)
