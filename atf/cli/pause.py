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
from atf.rpc import api, frontend_pb2 as f

from .confirmation import confirm, require_terminal
from .options import bulk_flags, lists, wants_json, why_flag
from .output import print_table, show
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
@lists
def pause(lambda_name: str | None, every: bool, why: str, dry_run: bool) -> None:
    """Start no more tasks of LAMBDA. It goes on accepting tasks, and what runs goes on.

    `atf resume --all` ends what `atf pause --all` has begun; lambdas that were paused before stay so.
    """
    _check(lambda_name, every)
    reason = f"{_MARK}: {why}" if every and why else _MARK if every else why

    async def one(stub: api.Frontend, name: str) -> None:
        await stub.pause_lambda(f.PauseLambdaRequest(**{"lambda": name}, who=whoami(), why=reason))

    _run(lambda_name, dry_run, _to_pause, one, paused=True)


@click.command()
@lambda_argument
@click.option("--all", "every", is_flag=True, help="Every lambda that `atf pause --all` has paused.")
@why_flag
@bulk_flags
@lists
def resume(lambda_name: str | None, every: bool, why: str, dry_run: bool) -> None:
    """Start tasks of a paused LAMBDA again."""
    _check(lambda_name, every)

    async def one(stub: api.Frontend, name: str) -> None:
        await stub.resume_lambda(f.ResumeLambdaRequest(**{"lambda": name}, who=whoami(), why=why))

    _run(lambda_name, dry_run, _to_resume, one, paused=False)


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
    plan: Callable[[api.Frontend], Awaitable[_LambdasToChange]],
    one: Callable[[api.Frontend, str], Awaitable[None]],
    *,
    paused: bool,
) -> None:
    many = lambda_name is None and not dry_run
    require_terminal(many=many)
    found = _LambdasToChange([lambda_name], []) if lambda_name is not None else ask(plan)
    confirm(f"{'Pause' if paused else 'Resume'} {len(found.names)} lambdas", many=many)
    if not dry_run:
        ask(lambda stub: _all(stub, found.names, one, "paused" if paused else "resumed"))
    _print(lambda_name, found, dry_run, paused=paused)


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


def _print(lambda_name: str | None, found: _LambdasToChange, dry_run: bool, *, paused: bool) -> None:
    word = "is paused" if paused else "runs"
    if dry_run:
        word = "would be paused" if paused else "would run"
    if lambda_name is not None:
        value = {"lambda": lambda_name, "paused": paused, **({"dry_run": True} if dry_run else {})}
        show(value, f"{lambda_name} {word}")
        return
    if not wants_json():
        print_table(["lambda", "state"], [(name, word) for name in found.names])
    kept = [f"{name} stays paused: it was paused apart. atf resume {name} ends that" for name in found.left]
    show({"lambdas": found.names, "paused": paused, "dry_run": dry_run, "stay_paused": found.left}, *kept)
