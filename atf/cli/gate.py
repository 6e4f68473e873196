"""Commands on gates: pause, drop, delay, admit, lift, ls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from atf.client.gates import word_of
from atf.client.whoami import whoami
from atf.errors import InvalidArgument, NotFound
from atf.rpc import frontend_pb2 as f
from atf.runtime import SystemRuntime, new_id
from atf.task import US
from atf.times import length

from .json_values import message_json
from .nouns import Noun
from .options import any_lambda_argument, asks, duration, instant, lambda_argument, lists, option, pairs, why_flag
from .output import Columns, show, show_rows, when
from .remote import ask

F = TypeVar("F", bound=Callable[..., Any])

labels_flag = option(
    "--label",
    "NAME=VALUE",
    "Only tasks with this label. May be given again: tasks that have them all.",
    name="labels",
    multiple=True,
)


def _setting(command: F) -> F:
    """The flags of the commands that set a gate."""
    flags = (
        labels_flag,
        option("--for", "DURATION", "It ends by itself after this long.", duration, name="for_"),
        option("--until", "TIME", "It ends by itself at this instant, such as 2030-01-31T08:00."),
        why_flag,
        asks,
    )
    for flag in reversed(flags):
        command = flag(command)
    return lambda_argument(command)


@click.group(cls=Noun)
def gate() -> None:
    """Keep back tasks of a lambda that are due, or of those with some labels: until an instant, or until the gate is lifted.

    What runs goes on. `atf audit` says who set and lifted which, and why.
    """


@gate.command()
@_setting
def pause(**flags: Any) -> None:
    """Let tasks wait. Nothing is lost."""
    _set(f.Gate.PAUSE, flags)


@gate.command()
@_setting
def drop(**flags: Any) -> None:
    """Cancel tasks when they are due."""
    _set(f.Gate.DROP, flags)


@gate.command()
@option("--by", "DURATION", "How long each task waits: 30s, 5m, 2h.", duration, required=True)
@_setting
def delay(by: float, **flags: Any) -> None:
    """Let each task wait for a while, once."""
    _set(f.Gate.DELAY, flags, delay_us=round(by * US))


@gate.command()
@_setting
@click.argument("percent", metavar="PERCENT")
def admit(percent: str, **flags: Any) -> None:
    """Let PERCENT of the tasks pass, always the same ones; the others wait."""
    _set(f.Gate.ADMIT, flags, share=_share(percent))


def _share(text: str) -> float:
    try:
        return float(text.strip().removesuffix("%")) / 100
    except ValueError:
        raise InvalidArgument(f"{text[:80]!r} is no share: write a number of percent, such as 5 or 0.1") from None


def _set(action: f.Gate.Action, flags: dict[str, Any], **amount: Any) -> None:
    request = f.SetGateRequest(
        labels=pairs(flags["labels"], "--label"),
        action=action,
        who=whoami(),
        why=flags["why"],
        request_id=new_id(SystemRuntime().random),
        **amount,
    )
    setattr(request, "lambda", flags["lambda_name"])
    if flags["for_"] is not None and flags["until"] is not None:
        raise InvalidArgument("--for and --until: give one of them")
    if flags["for_"] is not None:
        request.for_us = round(flags["for_"] * US)
    if flags["until"] is not None:
        request.until_at_us = instant(flags["until"], "--until")
    made = ask(lambda stub: stub.set_gate(request))
    of = f" of {_labels(made.labels)}" if made.labels else ""
    show(gate_json(made), f"{getattr(made, 'lambda')}: {_what(made)}{of}, {_ends(made)}")


@gate.command()
@lambda_argument
@click.argument("action", required=False, type=click.Choice(["pause", "drop", "delay", "admit"]))
@labels_flag
@why_flag
@asks
def lift(lambda_name: str, action: str | None, labels: Sequence[str], why: str) -> None:
    """Lift the gates of LAMBDA with exactly these labels, or one of them. What they kept goes on."""
    number = 0 if action is None else f.Gate.Action.Value(action.upper())
    request = f.LiftGateRequest(labels=pairs(labels, "--label"), action=number, who=whoami(), why=why)  # type: ignore[arg-type]
    setattr(request, "lambda", lambda_name)
    lifted = ask(lambda stub: stub.lift_gate(request)).lifted
    said = [f"{lambda_name}: {lifted} gate{'s' if lifted > 1 else ''} lifted"] if lifted else []
    show({"lambda": lambda_name, "lifted": lifted}, *said)
    if not lifted:
        raise NotFound(f"{lambda_name} has no such gate; atf gate ls {lambda_name} lists those it has")


@gate.command()
@any_lambda_argument
@lists
def ls(lambda_name: str) -> None:
    """List the gates of LAMBDA, or of every lambda, with what they keep and have dropped."""
    found = ask(lambda stub: stub.list_gates(f.ListGatesRequest(**{"lambda": lambda_name}))).gates
    columns: Columns[f.Gate] = {
        "lambda": "lambda",
        "gate": _what,
        "labels": lambda each: _labels(each.labels),
        "ends": _ends,
        "waiting": "waiting",
        "dropped": "dropped",
        "by": "who",
        "because": "why",
    }
    show_rows(found, gate_json, columns)


def gate_json(gate: f.Gate) -> dict[str, Any]:
    """A gate for programs."""
    names = "lambda action labels delay_us share until_at_us who why automatic set_at_us waiting dropped"
    return message_json(gate, names) | {"action": word_of(gate.action)}


def _what(gate: f.Gate) -> str:
    match gate.action:
        case f.Gate.DELAY:
            return f"delay by {length(gate.delay_us)}"
        case f.Gate.ADMIT:
            return f"admit {gate.share * 100:g} %"
        case _:
            return word_of(gate.action)


def _labels(labels: Any) -> str:
    return ", ".join(f"{name}={labels[name]}" for name in sorted(labels))


def _ends(gate: f.Gate) -> str:
    return f"until {when(gate.until_at_us)}" if gate.until_at_us else "until it is lifted"
