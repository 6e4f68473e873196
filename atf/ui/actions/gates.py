"""Actions on gates: pause, drop, delay, admit, lift."""

from __future__ import annotations

from typing import Any, Final

from atf.errors import NotFound
from atf.rpc import api, frontend_pb2 as f
from atf.ui.labels import labels_of

from .action import WHY, Action, Do, FormField, Values, duration_us, number_of, said

_LABELS: Final = FormField("labels", "Labels", "--label", "team=web; empty: every task", kind="labels")
_FOR: Final = FormField("for", "For", "--for", "30m, 2h; empty: until it is lifted")


def _setting(action: f.Gate.Action, word: str) -> Do:
    async def do(frontend: api.Frontend, values: Values, who: str) -> str:
        request = f.SetGateRequest(
            labels=labels_of(values["labels"]), action=action, **said(values, who), **_amount(values)
        )
        setattr(request, "lambda", values["lambda"])
        if values["for"]:
            request.for_us = duration_us(values["for"], "For")
        await frontend.set_gate(request)
        return f"The gate stands: {word}."

    return do


def _amount(values: Values) -> dict[str, Any]:
    if values.get("by"):
        return {"delay_us": duration_us(values["by"], "By")}
    return {"share": number_of(values["percent"], "Percent") / 100} if values.get("percent") else {}


async def _lift(frontend: api.Frontend, values: Values, who: str) -> str:
    known = dict(f.Gate.Action.items())
    number = known.get(values["action"].upper(), 0)
    request = f.LiftGateRequest(labels=labels_of(values["labels"]), action=number, **said(values, who))  # type: ignore[arg-type]
    setattr(request, "lambda", values["lambda"])
    if not (await frontend.lift_gate(request)).lifted:
        raise NotFound("there is no such gate any more")
    return "The gate is lifted; what it kept goes on."


def _gate(name: str, label: str, says: str, do: Do, *fields: FormField) -> Action:
    words = (*("atf", "gate", name, "{lambda}"), *("{" + each.name + "}" for each in fields if not each.flag))
    tone = "danger" if name == "drop" else ""
    return Action(f"gate-{name}", label, says, ("lambda",), words, do, (*fields, _LABELS, _FOR, WHY), tone)


ACTIONS: Final = (
    _gate(
        "pause",
        "Keep back",
        "Tasks with these labels wait when they are due. Nothing is lost.",
        _setting(f.Gate.PAUSE, "they wait"),
    ),
    _gate(
        "delay",
        "Delay",
        "Each task waits for a while when it is due, once.",
        _setting(f.Gate.DELAY, "each waits"),
        FormField("by", "By", "--by", "30s, 5m", required=True),
    ),
    _gate(
        "admit",
        "Admit a share",
        "So many percent of the tasks pass, always the same ones. The others wait.",
        _setting(f.Gate.ADMIT, "a share passes"),
        FormField("percent", "Percent", hint="5", required=True),
    ),
    _gate(
        "drop",
        "Drop",
        "Tasks with these labels are cancelled when they are due.",
        _setting(f.Gate.DROP, "they are cancelled"),
    ),
    Action(
        "lift-gate",
        "Lift",
        "What the gate kept goes on.",
        ("lambda", "action"),
        ("atf", "gate", "lift", "{lambda}", "{action}"),
        _lift,
        (FormField("labels", "Labels", "--label", kind="labels"), WHY),
    ),
)
