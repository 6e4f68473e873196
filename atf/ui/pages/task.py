"""The page of one task: why it waits or how it ended, what it has waited for, its runs, arguments and result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from atf.errors import NotFound
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.failure import failure_of
from atf.sdk.sealed import words
from atf.ui.texts import readable
from atf.ui.veils import Veil, veil_over
from atf.ui.visit import PageView, Visit
from atf.ui.waits import REASONS
from atf.ui.words import lambda_of

PARTS: Final = ("arguments", "result", "error", "log")
"""What has a page of its own where it is long."""
_WIDTH: Final = 1_000.0
"""Of a bar, in its own units."""
_LEAST: Final = 4.0
"""Of a part of it, so that each is seen."""


async def task(visit: Visit) -> PageView:
    """One task."""
    explained = await visit.read(visit.frontend.explain_task, f.ExplainTaskRequest(id=visit.names["id"]))
    found = await visit.read(visit.frontend.get_task, f.GetTaskRequest(id=visit.names["id"], with_spec=True))
    log, watched = await _log(visit, found)
    values = {
        "task": found,
        "logs": log.runs,
        "why_no_log": log.why_none,
        "watched": watched,
        "explained": explained,
        "bar": bar_of(explained.waits),
        "waited_us": sum(each.us for each in explained.waits),
        "runs": runs_of(found, explained.now_us),
        "failure": failure_of(words(found.error)),
        "arguments": readable(found.spec.payload, found.spec.encoding),
        "result": readable(found.result, found.result_encoding),
        "veil": veil_of(found),
        "can_cancel": not found.finished_at_us,
        "can_retry": found.status in (t.FATAL_FAILURE, t.CANCELLED),
    }
    return PageView("task.html", f"Task {found.id}", values)


async def _log(visit: Visit, found: t.Task) -> tuple[f.GetLogReply, bool]:
    """What its runs have said, as far as it is kept; of one that runs, as far as it has come."""
    if found.withheld:  # to ask for it would be refused
        return f.GetLogReply(why_none="withheld"), False
    watched = found.status == t.PROCESSING
    seen = visit.logs.look(found.id) if watched else None
    if seen is None and found.has_log:
        seen = await visit.read(visit.frontend.get_log, f.GetLogRequest(id=found.id))
    return seen or f.GetLogReply(), watched


async def part(visit: Visit) -> PageView:
    """All of a payload, a result or an error, which its page cuts."""
    name = visit.names["part"]
    if name not in PARTS:
        raise NotFound(f"a task has no {name[:80]!r} here: {', '.join(PARTS)}")
    found = await visit.frontend.get_task(f.GetTaskRequest(id=visit.names["id"], with_spec=True))
    asked = name == "log" and not found.withheld
    log = await visit.frontend.get_log(f.GetLogRequest(id=found.id)) if asked else f.GetLogReply()
    texts = {
        "arguments": lambda: readable(found.spec.payload, found.spec.encoding),
        "result": lambda: readable(found.result, found.result_encoding),
        "error": lambda: words(found.error),
        "log": lambda: "\n".join(f"run {each.run}\n{words(each.text)}" for each in log.runs) or log.why_none,
    }
    values = {"task": found, "part": name, "text": texts[name](), "veil": veil_of(found)}
    return PageView("part.html", f"{name.capitalize()} of {found.id}", values, False)


def veil_of(found: t.Task) -> Veil | None:
    """Why what a task carries is not shown."""
    return veil_over(lambda_of(found), [found], ["atf", "get", found.id, "--codec-keys", "FILE"])


def bar_of(parts: Sequence[f.WaitPart]) -> list[dict[str, Any]]:
    """The parts of the bar with their places on it."""
    whole = sum(each.us for each in parts) or 1
    widths = [max(each.us / whole * _WIDTH, _LEAST) for each in parts]
    scale, at, placed = _WIDTH / (sum(widths) or 1), 0.0, []
    for each, width in zip(parts, widths, strict=True):
        place = {"x": round(at, 2), "width": round(width * scale, 2)}
        placed.append(
            {
                "reason": each.reason,
                "tone": REASONS.get(each.reason, "wait-queue"),
                "us": each.us,
                "begun_us": each.begun_us,
                **place,
            }
        )
        at += width * scale
    return placed


def runs_of(found: t.Task, now_us: int) -> list[dict[str, Any]]:
    """The runs of a task, newest first, the one that goes on before the others; each with its bar on one scale."""
    first = max(found.runs - len(found.ended_runs) - (found.status in (t.CLAIMED, t.PROCESSING)), 0)
    runs: list[dict[str, Any]] = [
        {
            "number": first + place,
            "attempt": each.attempt,
            "owner": each.owner,
            "started_us": each.started_at_us,
            "us": each.ended_at_us - each.started_at_us if each.started_at_us else -1,
            **_outcome(each.why),
        }
        for place, each in enumerate(found.ended_runs, 1)
    ]
    if found.status in (t.CLAIMED, t.PROCESSING):
        started = found.started_at_us if found.status == t.PROCESSING else 0
        us = now_us - started if started else -1
        going = {
            "number": found.runs,
            "attempt": found.attempts + 1,
            "owner": found.owner,
            "started_us": started,
            "us": us,
        }
        runs.append({**going, "word": "runs" if started else "claimed", "why": "", "tone": "run"})
    longest = max((run["us"] for run in runs), default=0) or 1
    return [{**run, "width": max(round(run["us"] / longest * _WIDTH, 2), 0)} for run in reversed(runs)]


def _outcome(why: str) -> dict[str, str]:
    """How a run ended: in a word, in what more there is to say, and its colour."""
    word, _, more = why.partition(": ")
    said = word.replace("_", " ").replace("failed fatal", "failed for good")
    return {"word": said, "why": more, "tone": _TONES.get(word, "bad")}


_TONES: Final = {
    "succeeded": "good",
    "handed_back": "off",
    "stopped": "off",
    "misfit": "warn",
    "lost": "warn",
    "failed": "warn",
}
