"""Says what keeps a task back that may be due: its job's pause, a gate or a pause of its lambda, or a pause of claims."""

from __future__ import annotations

from collections.abc import Sequence

from atf.sdk.failure import sentence_of
from atf.store.values.explained import ExplainedTask
from atf.store.values.lambdas import Gate, GateAction
from atf.task import WAITING

from .explain_words import ExplainAnswer, duration
from .explain_workers import unknown_lambda


def held_by_job(found: ExplainedTask) -> ExplainAnswer | None:
    """A tick of a job that is paused."""
    record = found.record
    if not record.held or record.of_job is None or record.status not in WAITING:
        return None
    job = record.of_job.job
    return ExplainAnswer(
        "job_paused",
        f"It is a tick of the job {job}, which is paused: it waits until somebody runs atf job resume {job}.",
    )


def gated(found: ExplainedTask, gates: Sequence[Gate] | None) -> ExplainAnswer | None:
    """Kept by a gate that looks at single tasks."""
    if not found.gate or found.record.status not in WAITING:
        return None
    if gates is None:
        return ExplainAnswer(
            "gated",
            "It is due, but a gate of its lambda keeps it. Which one can't be told while a server of the task store is away.",
        )
    gate = next((each for each in gates if each.number == found.gate), None)
    if gate is None:
        return ExplainAnswer("gated", "The gate that kept it was lifted or has ended; it is about to be let through.")
    until = f"for another {duration(gate.until_us - found.now_us)}" if gate.until_us else "until it is lifted"
    kind = {GateAction.PAUSE: "a pause", GateAction.ADMIT: f"a gate that admits {gate.amount * 100:g} %"}
    what = kind.get(gate.action, f"a delay by {duration(int(gate.amount))}")
    labels = ", ".join(f"{name}={gate.labels[name]}" for name in sorted(gate.labels))
    of = f"those with {labels}" if labels else "all its tasks"
    return ExplainAnswer(
        "gated",
        f"It is due, but a gate of its lambda keeps it: {what} of {of}, {until}{_said(gate)}. atf gate ls"
        f" {found.record.lambda_name} shows it.",
        gate.until_us,
    )


def _said(gate: Gate) -> str:
    by = f", set by {gate.who}" if gate.who else ""
    return by + (f" ({sentence_of(gate.why)})" if gate.why else "")


def pause_of(found: ExplainedTask, gates: Sequence[Gate] | None) -> ExplainAnswer | None:
    """That its lambda is paused: what follows "It is due, but", and until when."""
    if not found.paused:
        return None
    name = found.record.lambda_name
    gate = next((each for each in gates or () if each.action is GateAction.PAUSE and not each.labels), None)
    if gate is None and gates is not None:
        return ExplainAnswer(
            "paused", "its lambda was paused until just now: it goes on with the next pass of a store consumer."
        )
    said, until_us = (_said(gate), gate.until_us) if gate else ("", 0)
    until = f"for another {duration(until_us - found.now_us)}, or until" if until_us else "until"
    sentence = f"its lambda is paused{said}: nothing of {name} starts {until} somebody runs atf resume {name}."
    return ExplainAnswer("paused", sentence, until_us)


def kept_back(found: ExplainedTask, pause: ExplainAnswer | None) -> ExplainAnswer | None:
    """That nothing is pushed of its lambda."""
    if pause:
        return pause._replace(sentence=f"It is due, but {pause.sentence}")
    if found.unknown:
        return ExplainAnswer("not_registered", f"It is due, but {unknown_lambda(found)}")
    return None


def claims_paused(found: ExplainedTask, start: str) -> ExplainAnswer | None:
    """That no task of its partition starts; None: they do. Ask this first: what is known of workers may date from before a restart."""
    if found.pause is None:
        return None
    until_us = 0 if found.pause.unseen else found.now_us + found.pause.left_us
    return ExplainAnswer("claims_paused", f"{start}, but {found.pause.sentence}.", until_us)
