"""Commands on lambdas and their queues: lambda (ls, show, set, unset, rm), queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from atf.client.cluster import delete_lambda
from atf.client.registration import listed
from atf.client.settings import settings_of
from atf.client.whoami import signed, whoami
from atf.rpc import frontend_pb2 as f
from atf.times import length
from atf.visible import one_line

from . import output
from .confirmation import confirm, require_terminal
from .json_values import message_json
from .nouns import Noun
from .options import any_lambda_argument, asks, bulk_flags, lambda_argument, lists, wants_json, why_flag
from .output import Columns, show_fields, show_rows
from .remote import ask
from .user_lambdas import check, register

_NOTHING: Final[Mapping[str, str]] = {}
_QUEUE: Final = "name partition priority depth limit"


@click.group("lambda", cls=Noun)
def lambda_() -> None:
    """The registered lambdas; without a further word, list them."""


lambda_.add_command(register)
lambda_.add_command(check)


@lambda_.command("ls")
@any_lambda_argument
@lists
def ls(lambda_name: str) -> None:
    """List the registered lambdas, or LAMBDA, with the numbers of their tasks."""
    reply = ask(lambda stub: listed(stub, lambda_name))
    columns: Columns[f.LambdaInfo] = {
        "lambda": lambda info: info.spec.name,
        "state": lambda info: "paused" if info.paused else "",
        "new": lambda info: info.counts.get("NEW", 0),
        "queued": lambda info: info.counts.get("ENQUEUED", 0),
        "running": lambda info: info.counts.get("CLAIMED", 0) + info.counts.get("PROCESSING", 0),
        "to retry": lambda info: info.counts.get("RETRIABLE_FAILURE", 0),
        "succeeded": lambda info: info.counts.get("SUCCESS", 0),
        "failed": lambda info: info.counts.get("FATAL_FAILURE", 0),
        "cancelled": lambda info: info.counts.get("CANCELLED", 0),
    }
    show_rows(reply.lambdas, _json, columns)
    _say_pause(reply)


def _json(info: f.LambdaInfo) -> dict[str, Any]:
    shown = {"name": info.spec.name, "signature": info.spec.signature, **message_json(info, "paused counts")}
    return {**shown, "queues": [message_json(queue, _QUEUE) for queue in info.queues]}


@lambda_.command()
@lambda_argument
@asks
def show(lambda_name: str) -> None:
    """Show what holds of LAMBDA: what its code says, and before that what was set."""
    _show_settings(_info(lambda_name))


@lambda_.command("set")
@lambda_argument
@click.argument("settings", metavar="NAME=VALUE...", nargs=-1, required=True)
@why_flag
@asks
def set_(lambda_name: str, settings: tuple[str, ...], why: str) -> None:
    """Set what goes before what the code of LAMBDA says, until it is unset; within a second it holds everywhere.

    The names are those of @app.task: rate, burst, max_running, max_pending, queue_limit, enqueue_timeout (seconds), shares
    (high:0.5,low:0.1), pool, placement (any, sticky, spread), stop_on_fatal (yes, no), gate_at_fatal, slo ("5s 99%"), logs (failed, all,
    none), owner, runbook. Otherwise the value "none" lifts a bound that the code has; of pool, "default" is that of the hosts which were
    given none.
    """
    pairs = [each.partition("=") for each in settings]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.UsageError(f"{name!r}: write NAME=VALUE, such as rate=100")
    _change(f.SetLambdaRequest(set={name: value for name, _, value in pairs}, **signed(whoami(), why)), lambda_name)


@lambda_.command()
@lambda_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@why_flag
@asks
def unset(lambda_name: str, names: tuple[str, ...], why: str) -> None:
    """Have settings of LAMBDA as its code says again; "all": every one."""
    before = dict(_info(lambda_name).overrides)
    _change(f.SetLambdaRequest(unset=names, **signed(whoami(), why)), lambda_name, before)


def _info(lambda_name: str) -> f.LambdaInfo:
    request = f.ListLambdasRequest(page_size=1, **{"lambda": lambda_name})
    return ask(lambda stub: stub.list_lambdas(request)).lambdas[0]


def _change(request: f.SetLambdaRequest, lambda_name: str, before: Mapping[str, str] = _NOTHING) -> None:
    setattr(request, "lambda", lambda_name)
    _show_settings(ask(lambda stub: stub.set_lambda(request)), before)


def _show_settings(info: f.LambdaInfo, before: Mapping[str, str] = _NOTHING) -> None:
    """What holds; of what was set before and is not any more, also what that was."""
    settings, code = settings_of(info.in_force), settings_of(info.spec)
    facts: list[tuple[str, object]] = [("name", info.spec.name), ("", "paused" if info.paused else "")]
    for name, value in settings.items():
        held = value or info.overrides.get(name, value)  # of a bound that was lifted, the word for it
        said = f"{held} (set; the code says {code[name] or 'nothing'})" if name in info.overrides else held
        if name in before and name not in info.overrides:
            said = f"{held or 'none'} (as the code says; it was set to {before[name]})"
        facts.append((name, said))
    facts.append(("retention", length(info.spec.options.retention_us) if info.spec.options.retention_us else ""))
    changed = dict(sorted(info.overrides.items()))
    show_fields(
        {"name": info.spec.name, "paused": info.paused, "settings": settings, "set": changed, "code": code}, facts
    )


@lambda_.command()
@lambda_argument
@click.option("--cancel-waiting", is_flag=True, help="Cancel its tasks that wait; asks before.")
@why_flag
@bulk_flags
@asks
def rm(lambda_name: str, cancel_waiting: bool, why: str, dry_run: bool) -> None:
    """Forget LAMBDA, which no code has any more. Its dead letters stay until their retention is over.

    Refused while live workers run it, while tasks of it wait or run, and while a job names it.
    """
    request = f.DeleteLambdaRequest(cancel_waiting=cancel_waiting, dry_run=True, **signed(whoami(), why))
    setattr(request, "lambda", lambda_name)
    require_terminal(many=cancel_waiting and not dry_run)
    waiting = ask(lambda stub: stub.delete_lambda(request)).waiting
    cancelled = 0
    if not dry_run:
        confirm(f"Cancel {waiting} tasks of {lambda_name}, and forget it", many=waiting > 0)
        request.dry_run = False
        cancelled = ask(lambda stub: delete_lambda(stub.delete_lambda, request))
    said = f"{lambda_name} is forgotten" + (f", {cancelled} tasks were cancelled" if cancelled else "")
    if dry_run:
        said = f"{lambda_name} would be forgotten" + (f", and {waiting} tasks cancelled" if waiting else "")
    output.show({"lambda": lambda_name, "dry_run": dry_run, "waiting": waiting, "cancelled": cancelled}, said)


@click.group(cls=Noun)
def queue() -> None:
    """The queues; without a further word, list them."""


@queue.command("ls")
@any_lambda_argument
@lists
def queue_ls(lambda_name: str) -> None:
    """List the queues of LAMBDA, or of every lambda, with their lengths."""
    reply = ask(lambda stub: listed(stub, lambda_name))
    found = [(info.spec.name, queue) for info in reply.lambdas for queue in info.queues]
    found.sort(key=lambda pair: (pair[0], pair[1].priority, pair[1].partition))
    columns: Columns[tuple[str, f.QueueInfo]] = {
        "queue": lambda pair: pair[1].name,
        "lambda": lambda pair: pair[0],
        "priority": lambda pair: pair[1].priority,
        "waiting": lambda pair: pair[1].depth,
        "limit": lambda pair: pair[1].limit,
    }
    paused = reply.claims_paused or None
    show_rows(
        found, lambda pair: {"lambda": pair[0], **message_json(pair[1], _QUEUE), "claims_paused": paused}, columns
    )
    _say_pause(reply)


def _say_pause(reply: f.ListLambdasReply) -> None:
    """Says on stderr that no task starts: the table on stdout is for programs, too."""
    if reply.claims_paused and not wants_json():
        click.echo(one_line(reply.claims_paused), err=True)
