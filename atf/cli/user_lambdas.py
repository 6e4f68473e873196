"""The commands that import an app as an executor would: atf lambda register, atf lambda check."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from atf.client.registration import every_lambda, left_jobs, register_lambdas
from atf.client.whoami import signed, whoami
from atf.codec.cipher import cipher_of
from atf.config.settings import ExecutorSettings
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.rpc import api, frontend_pb2 as f
from atf.sdk.lambdas import Lambda
from atf.visible import one_line

from .confirmation import confirm
from .encryption import codec_keys_flag
from .json_values import message_json, print_json
from .options import as_json, bulk_flags, kept, lists, no_header, option, refuse_unused, wants_json, why_flag
from .output import print_table, show_rows
from .payload_check import check_payloads, on_terminal
from .remote import ask


@click.command()
@click.argument("apps", metavar="MODULE:APP...", nargs=-1, required=True)
@click.option("--prune", is_flag=True, help="Delete the jobs that code in these namespaces has made and has no more.")
@why_flag
@bulk_flags
@lists
def register(apps: tuple[str, ...], prune: bool, why: str, dry_run: bool) -> int:
    """Make the lambdas of an app known, and ATF's own, so that tasks can be scheduled before an executor runs.

    Jobs that an earlier code of the namespaces declared, and this one does not, are named. They go on; --prune deletes them, but for those
    whose lambda live workers still run: they may be another app's.
    """
    from atf.cli.local.user_code import run_in_child

    refuse_unused({"yes": kept("yes")}, ("yes",) if not prune else (), "without --prune")
    return run_in_child(apps, lambda loaded: _register(loaded, prune, why, dry_run))


def _register(loaded: Mapping[str, Lambda[..., Any]], prune: bool, why: str, dry_run: bool) -> int:
    from atf.builtin import with_builtins

    specs = [each.spec() for each in with_builtins(loaded, ExecutorSettings()).values()]
    if not dry_run:
        for warning in ask(lambda stub: register_lambdas(stub, specs, who=whoami(), why=why)):
            print(f"atf: warning: {one_line(warning)}", file=sys.stderr)
    _say_left(loaded, prune, why, dry_run)
    _show_specs(specs)
    return EXIT_OK


def _say_left(loaded: Mapping[str, Lambda[..., Any]], prune: bool, why: str, dry_run: bool) -> None:
    """Names the jobs that have left the code, and deletes them where that was asked for."""
    declared = {each.job.name for each in loaded.values() if each.job is not None}
    namespaces = {name.partition("/")[0] for name in loaded}
    left = ask(lambda stub: left_jobs(stub, declared, namespaces))
    kept = set(left) & ask(_served) - loaded.keys() if left else set()
    gone = [each for each in left if each not in kept]
    for name in left:
        then = "live workers still run its lambda" if name in kept else "--prune deletes it"
        then = "it would be deleted" if prune and dry_run and name in gone else then
        said = f"the job {name} is not in the code any more, and goes on: {then}"
        if name in kept or not prune or dry_run:
            print(f"atf: warning: {one_line(said)}", file=sys.stderr)
    if prune and gone and not dry_run:
        confirm(f"Delete {len(gone)} jobs that are not in the code any more ({', '.join(gone)})")
        for name in gone:
            request = f.DeleteJobRequest(name=name, **signed(whoami(), why))
            ask(lambda stub, request=request: stub.delete_job(request))  # type: ignore[misc]
            print(f"atf: deleted the job {one_line(name)}", file=sys.stderr)


async def _served(stub: api.Frontend) -> set[str]:
    """The lambdas that live workers run."""
    return {info.spec.name for info in await every_lambda(stub) if info.served}


@click.command()
@click.argument("apps", metavar="MODULE:APP...", nargs=-1, required=True)
@option("--against", "HOST:PORT", "the frontend of a cluster: say which of its waiting tasks the app can't read")
@codec_keys_flag
@as_json
@no_header
def check(apps: tuple[str, ...], against: str | None, codec_keys: str | None) -> int:
    """Import an app as an executor would, and list its lambdas; nothing is registered.

    With --against, before a deploy: read every unfinished task, job and callback of a cluster's batches in the namespaces of the app, and
    say which payloads this code does not take, and why. Exits with 1 where some do not fit. It changes nothing. What is encrypted needs the
    key file, and does not fit without it.
    """
    from atf.cli.local.user_code import run_in_child

    return run_in_child(apps, lambda loaded: _check(loaded, against, codec_keys))


def _check(loaded: Mapping[str, Lambda[..., Any]], against: str | None, codec_keys: str | None) -> int:
    if against is None:
        _show_specs([each.spec() for each in loaded.values()])
        return EXIT_OK
    found = ask(lambda stub: check_payloads(stub, loaded, on_terminal, cipher_of(codec_keys)), at=against)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    unfit = found.unfit()
    if wants_json():
        shown = [dict(zip(("lambda", "what", "count", "example", "why"), each, strict=True)) for each in unfit]
        print_json({"read": found.looked_at, "unfit": shown})
    elif unfit:
        rows = [(each.lambda_name, f"{each.number} {each.what}", each.example, each.why) for each in unfit]
        print_table(["lambda", "do not fit", "for example", "why"], rows)
    else:
        print(f"all fit: {found.looked_at} payloads were read")
    return EXIT_FAILED if unfit else EXIT_OK


def _show_specs(specs: Sequence[f.LambdaSpec]) -> None:
    show_rows(specs, lambda spec: message_json(spec, "name signature"), {"lambda": "name", "signature": "signature"})
