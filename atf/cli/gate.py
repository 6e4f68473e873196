"""Commands on gates: pause, drop, delay, admit, lift, ls, log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from atf.client.gates import audit_all, word_of
from atf.client.whoami import whoami
from atf.errors import InvalidArgument, NotFound
from atf.rpc import frontend_pb2 as f
from atf.runtime import SystemRuntime, new_id
from atf.task import US
from atf.times import length
from atf.visible import one_line

from .nouns import Noun
from .options import as_json, duration, frontend_flag, no_header, why_flag
from .output import print_json, print_table, when
from .remote import ask
from .schedule import instant, pairs

F = TypeVar("F", bound=Callable[..., Any])

labels_flag = click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE",
    help="Only tasks with this label. May be given again: tasks that have them all.",
)  # fmt: skip


def _setting(command: F) -> F:
    """The flags of the commands that set a gate."""
    flags = (
        labels_flag,
        click.option("--for", "for_", type=duration, metavar="DURATION", help="It ends by itself after this long."),
        click.option("--until", metavar="TIME", help="It ends by itself at this instant, such as 2030-01-31T08:00."),
        why_flag,
        frontend_flag,
        as_json,
    )
    for flag in reversed(flags):
        command = flag(command)
    return click.argument("lambda_name", metavar="LAMBDA")(command)


@click.group(cls=Noun)
def gate() -> None:
    """Keep back tasks of a lambda that are due, or of those with some labels: until an instant, or until the gate is lifted.

    What runs goes on. Each gate is written down with who set it, and why.
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
@click.option("--by", type=duration, required=True, metavar="DURATION", help="How long each task waits: 30s, 5m, 2h.")
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
    made = ask(flags["frontend"], lambda stub: stub.set_gate(request))
    if flags["as_json"]:
        print_json(gate_json(made))
    else:
        print(one_line(f"{getattr(made, 'lambda')}: {_what(made)}{_of(made)}, {_ends(made)}"))


@gate.command()
@click.argument("lambda_name", metavar="LAMBDA")
@click.argument("action", required=False, type=click.Choice(["pause", "drop", "delay", "admit"]))
@labels_flag
@why_flag
@frontend_flag
@as_json
def lift(
    lambda_name: str, action: str | None, labels: Sequence[str], why: str, frontend: str | None, as_json: bool
) -> None:
    """Lift the gates of LAMBDA with exactly these labels, or one of them. What they kept goes on."""
    number = 0 if action is None else f.Gate.Action.Value(action.upper())
    request = f.LiftGateRequest(labels=pairs(labels, "--label"), action=number, who=whoami(), why=why)  # type: ignore[arg-type]
    setattr(request, "lambda", lambda_name)
    lifted = ask(frontend, lambda stub: stub.lift_gate(request)).lifted
    if as_json:
        print_json({"lambda": lambda_name, "lifted": lifted})
    elif lifted:
        print(one_line(f"{lambda_name}: {lifted} gate{'s' if lifted > 1 else ''} lifted"))
    if not lifted:
        raise NotFound(f"{lambda_name} has no such gate; atf gate ls {lambda_name} lists those it has")


@gate.command()
@click.argument("lambda_name", metavar="[LAMBDA]", required=False)
@frontend_flag
@as_json
@no_header
def ls(lambda_name: str | None, frontend: str | None, as_json: bool) -> None:
    """List the gates of LAMBDA, or of every lambda, with what they keep and have dropped."""
    request = f.ListGatesRequest(**{"lambda": lambda_name or ""})
    found = ask(frontend, lambda stub: stub.list_gates(request)).gates
    if as_json:
        print_json([gate_json(each) for each in found])
        return
    rows = [
        (
            getattr(each, "lambda"),
            _what(each),
            _labels(each.labels),
            _ends(each),
            each.waiting,
            each.dropped,
            each.who,
            each.why,
        )
        for each in found
    ]
    print_table(["lambda", "gate", "labels", "ends", "waiting", "dropped", "by", "because"], rows)


@gate.command()
@click.argument("lambda_name", metavar="[LAMBDA]", required=False)
@click.option("--limit", type=click.IntRange(1, 256), default=50, show_default=True, help="Entries at most.")
@frontend_flag
@as_json
@no_header
def log(lambda_name: str | None, limit: int, frontend: str | None, as_json: bool) -> None:
    """Who did what to LAMBDA, or to every lambda, and why; newest first."""
    found = ask(frontend, lambda stub: audit_all(stub.list_audit, lambda_name or "", limit))
    if as_json:
        print_json([_entry_json(each) for each in found])
        return
    rows = [
        (when(each.at_us), each.who, each.what, getattr(each, "lambda"), _labels(each.labels), each.detail, each.why)
        for each in found
    ]
    print_table(["at", "by", "what", "lambda", "labels", "detail", "because"], rows)


def gate_json(gate: f.Gate) -> dict[str, Any]:
    """A gate for programs."""
    return {
        "lambda": getattr(gate, "lambda"),
        "action": word_of(gate.action),
        "labels": dict(gate.labels),
        "delay_us": gate.delay_us,
        "share": gate.share,
        "until_at_us": gate.until_at_us,
        "who": gate.who,
        "why": gate.why,
        "automatic": gate.automatic,
        "set_at_us": gate.set_at_us,
        "waiting": gate.waiting,
        "dropped": gate.dropped,
    }


def _entry_json(entry: f.AuditEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "at_us": entry.at_us,
        "what": entry.what,
        "lambda": getattr(entry, "lambda"),
        "labels": dict(entry.labels),
        "who": entry.who,
        "why": entry.why,
        "detail": entry.detail,
    }


def _what(gate: f.Gate) -> str:
    match gate.action:
        case f.Gate.DELAY:
            return f"delay by {length(gate.delay_us)}"
        case f.Gate.ADMIT:
            return f"admit {gate.share * 100:g} %"
        case _:
            return word_of(gate.action)


def _of(gate: f.Gate) -> str:
    return f" of {_labels(gate.labels)}" if gate.labels else ""


def _labels(labels: Any) -> str:
    return ", ".join(f"{name}={labels[name]}" for name in sorted(labels))


def _ends(gate: f.Gate) -> str:
    return f"until {when(gate.until_at_us)}" if gate.until_at_us else "until it is lifted"
