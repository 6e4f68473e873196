"""`atf pause` and `atf resume`: one lambda, or all of them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import click

from atf.client.registration import every_lambda
from atf.client.whoami import whoami
from atf.errors import InvalidArgument
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.visible import one_line

from .confirmation import bulk_flags, confirm, require_terminal
from .options import as_json, frontend_flag, no_header, why_flag
from .output import print_json, print_table
from .progress import LINE_S
from .remote import ask

_MARK: Final = "pause --all"
"""Begins the reason of a pause that `atf pause --all` has set: `atf resume --all` lifts those, and no other."""
_AT_ONCE: Final = 16

lambda_argument = click.argument("lambda_name", metavar="[LAMBDA]", required=False)


class _LambdasToChange(NamedTuple):
    """What a command of all lambdas does."""

    names: list[str]
    left: list[str]
    """Of a resumption: those that somebody has paused for a reason of his own."""


@click.command()
@lambda_argument
@click.option("--all", "every", is_flag=True, help="Every lambda that is registered now and is not paused yet.")
@why_flag
@bulk_flags
@frontend_flag
@as_json
@no_header
def pause(
    lambda_name: str | None, every: bool, why: str, dry_run: bool, yes: bool, frontend: str | None, as_json: bool
) -> None:
    """Start no more tasks of LAMBDA. It goes on accepting tasks, and what runs goes on.

    `atf resume --all` ends what `atf pause --all` has begun; lambdas that were paused before stay so.
    """
    _check(lambda_name, every)
    reason = f"{_MARK}: {why}" if every and why else _MARK if every else why

    async def one(stub: api.Frontend, name: str) -> None:
        await stub.pause_lambda(f.PauseLambdaRequest(**{"lambda": name}, who=whoami(), why=reason))

    _run(lambda_name, dry_run, yes, frontend, as_json, _to_pause, one, "Pause", paused=True)


@click.command()
@lambda_argument
@click.option("--all", "every", is_flag=True, help="Every lambda that `atf pause --all` has paused.")
@why_flag
@bulk_flags
@frontend_flag
@as_json
@no_header
def resume(
    lambda_name: str | None, every: bool, why: str, dry_run: bool, yes: bool, frontend: str | None, as_json: bool
) -> None:
    """Start tasks of a paused LAMBDA again."""
    _check(lambda_name, every)

    async def one(stub: api.Frontend, name: str) -> None:
        await stub.resume_lambda(f.ResumeLambdaRequest(**{"lambda": name}, who=whoami(), why=why))

    _run(lambda_name, dry_run, yes, frontend, as_json, _to_resume, one, "Resume", paused=False)


def _check(lambda_name: str | None, every: bool) -> None:
    if (lambda_name is not None) == every:
        raise InvalidArgument("name a lambda, or give --all, and not both")


async def _to_pause(stub: api.Frontend) -> _LambdasToChange:
    return _LambdasToChange([info.spec.name for info in await every_lambda(stub) if not info.paused], [])


async def _to_resume(stub: api.Frontend) -> _LambdasToChange:
    gates = (await stub.list_gates(f.ListGatesRequest())).gates
    pauses = {getattr(gate, "lambda"): gate.why for gate in gates if gate.action == f.Gate.PAUSE and not gate.labels}
    ours = {name for name, why in pauses.items() if why.startswith(_MARK)}
    return _LambdasToChange(sorted(ours), sorted(pauses.keys() - ours))


def _run(
    lambda_name: str | None,
    dry_run: bool,
    yes: bool,
    frontend: str | None,
    as_json: bool,
    plan: Callable[[api.Frontend], Awaitable[_LambdasToChange]],
    one: Callable[[api.Frontend, str], Awaitable[None]],
    verb: str,
    *,
    paused: bool,
) -> None:
    if lambda_name is None and not (dry_run or yes):
        require_terminal()
    found = _LambdasToChange([lambda_name], []) if lambda_name is not None else ask(frontend, plan)
    if lambda_name is None and not dry_run:
        confirm(f"{verb} {len(found.names)} lambdas", yes=yes)
    if not dry_run:
        ask(frontend, lambda stub: _all(stub, found.names, one, "paused" if paused else "resumed"))
    _print(lambda_name, found, dry_run, as_json, paused=paused)


async def _all(
    stub: api.Frontend, names: Sequence[str], one: Callable[[api.Frontend, str], Awaitable[None]], done: str
) -> None:
    """Says on stderr how far it is: every two seconds, and where it ends before all are done."""
    at, said = 0, time.monotonic()
    try:
        for at in range(0, len(names), _AT_ONCE):
            if time.monotonic() - said >= LINE_S:
                said = _say(f"{at} of {len(names)} lambdas {done}")
            await asyncio.gather(*(one(stub, name) for name in names[at : at + _AT_ONCE]))
    except BaseException:
        if len(names) > 1:
            _say(f"stopped with {at} of {len(names)} lambdas {done}; the same command goes on with the rest")
        raise


def _say(line: str) -> float:
    print(line, file=sys.stderr, flush=True)
    return time.monotonic()


def _print(lambda_name: str | None, found: _LambdasToChange, dry_run: bool, as_json: bool, *, paused: bool) -> None:
    if as_json and lambda_name is not None:
        print_json({"lambda": lambda_name, "paused": paused, **({"dry_run": True} if dry_run else {})})
        return
    if as_json:
        print_json({"lambdas": found.names, "paused": paused, "dry_run": dry_run, "stay_paused": found.left})
        return
    word = "is paused" if paused else "runs"
    if dry_run:
        word = "would be paused" if paused else "would run"
    if lambda_name is not None:
        print(one_line(f"{lambda_name} {word}"))
        return
    print_table(["lambda", "state"], [(name, word) for name in found.names])
    for name in found.left:
        print(one_line(f"{name} stays paused: it was paused apart. atf resume {name} ends that"))
