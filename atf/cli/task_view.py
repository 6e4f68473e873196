"""How commands show tasks: one as a page, several as a table, and for programs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.failure import failure_of
from atf.sdk.sealed import words
from atf.sdk.tracing import trace_id_of
from atf.visible import one_line

from .json_values import bytes_json, message_json
from .output import show_fields, when

_LOST: Final = "lost with its executor"
"""How the error of a task begins whose losses are used up (loss.lua)."""
_FIELDS: Final = (
    "id lambda priority status attempts losses runs scheduled_at_us next_at_us created_at_us enqueued_at_us claimed_at_us started_at_us failed_at_us finished_at_us"
    " owner cancel_requested progress error error_type error_message failure_group ended_runs has_log withheld"
)


def task_json(task: t.Task) -> dict[str, Any]:
    """A task for programs."""
    shown = message_json(task, _FIELDS) | {"status": status_name(task.status)}
    shown |= bytes_json("result", task.result, task.result_encoding)
    if task.HasField("spec"):
        spec = task.spec
        shown |= bytes_json("payload", spec.payload, spec.encoding) | message_json(spec, "labels ordering_key")
        shown["concurrency_key"] = spec.concurrency.key
        shown["trace_id"] = trace_id_of(spec)
    return shown


def waits_json(waits: Iterable[f.WaitPart]) -> list[dict[str, Any]]:
    """What a task has waited for, for programs."""
    return [message_json(each) for each in waits]


def _again(task: t.Task, poison: bool) -> str:
    if task.status not in (t.FATAL_FAILURE, t.CANCELLED):
        return ""
    return f"atf retry {task.id}" + (", once its cause is mended: its process died each time" if poison else "")


def waits_text(waits: Iterable[f.WaitPart]) -> str:
    """The same for people, without what took less than a millisecond."""
    return ", ".join(f"{each.reason} {each.us / 1e6:.3f} s" for each in waits if each.us >= 1000)


def show_task(task: t.Task, of_failed: int = 0, waits: Sequence[f.WaitPart] = ()) -> None:
    """A task as a page, or for programs; `of_failed`: it is the last of so many of its lambda that failed."""
    shown, failed = task_json(task) | {"waits": waits_json(waits)}, failure_of(words(task.error))
    poison = task.status == t.FATAL_FAILURE and failed.headline.startswith(_LOST)
    others = f", the last of {of_failed} that failed: atf ls {shown['lambda']} --status dead" if of_failed > 1 else ""
    show_fields(
        shown,
        [
            ("id", task.id),
            ("lambda", shown["lambda"]),
            ("status", shown["status"] + (", cancellation asked for" if task.cancel_requested else "") + others),
            ("priority", task.priority),
            ("scheduled for", when(task.scheduled_at_us)),
            ("looked at again", when(task.next_at_us)),
            ("waited" if task.started_at_us or task.finished_at_us else "waits", waits_text(waits)),
            ("started", when(task.started_at_us)),
            ("finished", when(task.finished_at_us)),
            ("attempts", _attempts(task)),
            ("losses", task.losses or ""),
            ("held by", task.owner),
            ("progress", task.progress),
            ("payload", _text(shown, "payload")),
            ("labels", ", ".join(f"{name}={value}" for name, value in shown.get("labels", {}).items())),
            ("ordering key", shown.get("ordering_key", "")),
            ("concurrency", shown.get("concurrency_key", "")),
            ("trace", shown.get("trace_id", "")),
            ("result", _text(shown, "result")),
            ("error", failed.headline),
            ("traceback", failed.traceback.partition("\n")[2]),
            ("runs", "\n".join(_ended_runs(task.ended_runs))),
            ("log", f"atf logs {task.id}" if task.has_log else ""),
            ("run it again", _again(task, poison)),
            ("run all again", f"atf retry {shown['lambda']}" if task.status == t.FATAL_FAILURE and not poison else ""),
        ],
    )


def _attempts(task: t.Task) -> str:
    most = task.spec.options.max_attempts
    return f"{task.attempts} of {most}" if task.attempts and most else str(task.attempts or "")


def _ended_runs(runs: Iterable[t.EndedRun]) -> Iterator[str]:
    before = ""
    for run in runs:
        took = f"{(run.ended_at_us - run.started_at_us) / 1e6:.3f} s" if run.started_at_us else "never started"
        said = f"{run.why} ({run.owner})"
        shown = "the same" if said == before else said
        yield one_line(f"{when(run.started_at_us or run.ended_at_us)}, {took}: {shown}")
        before = said


def status_name(status: int) -> str:
    """A status of the wire by its name."""
    try:
        return str(t.Status.Name(status))
    except ValueError:  # of a newer frontend
        return f"STATUS_{status}"


def _text(shown: dict[str, Any], name: str) -> str:
    if f"{name}_base64" in shown:
        return f"{len(base64.b64decode(shown[f'{name}_base64']))} bytes"
    value = shown.get(name)
    return "" if value is None else json.dumps(value, ensure_ascii=False)
