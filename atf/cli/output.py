"""Prints what commands say: JSON for programs, tables for people, columns between tabs in a pipe. It reads no settings, calls nobody.

The names of JSON fields are those of the .proto files, and stay: an instant ends in _at_us, a status is its name. A result is
`result` if it is JSON, else `result_base64`. What came from others is printed so that it can't act on the terminal.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, Any, Final

from atf.client.settings import settings_of
from atf.rpc import frontend_pb2 as f
from atf.rpc import task_pb2 as t
from atf.sdk.failure import failure_of
from atf.visible import json_text, one_line, visible

from .options import without_header

_STYLES = {
    "SUCCESS": "green",
    "FATAL_FAILURE": "red",
    "RETRIABLE_FAILURE": "yellow",
    "PROCESSING": "cyan",
    "CLAIMED": "cyan",
    "ok": "green",
    "warn": "yellow",
    "refuse": "bold red",
}


_COLORS: Final = {"store": 33, "hsc": 35, "frontend": 32, "store-consumer": 34, "controller": 36, "atf": 90}
"""Of the processes' names, as a terminal numbers them."""
_WIDTH: Final = max(map(len, _COLORS))


_LEAST: Final = 20
"""Characters that the last column of a table keeps, however narrow the terminal is."""


def print_json(value: Any) -> None:
    """One JSON document, on one line."""
    print(json_for(sys.stdout, value), flush=True)  # whoever reads a pipe waits for it


def json_for(out: IO[str], value: Any) -> str:
    """A value as JSON on one line. Letters that the stream does not have are escaped, so that none is lost."""
    plain = not (getattr(out, "encoding", None) or "utf-8").lower().startswith("utf")
    return json_text(json.dumps(value, ensure_ascii=plain))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on a terminal; elsewhere a line per row, its values separated by tabs. The first line names the columns, but for --no-header.

    A terminal shows no column in which every value is empty. Only the last column is folded to fit a terminal: an id that is broken or cut can't be copied.
    """
    shown = [[one_line(str(value)) for value in row] for row in rows]
    headed = not without_header()
    if not sys.stdout.isatty():
        for row in [columns, *shown] if headed else shown:
            print("\t".join(row))
        return
    filled = [place for place in range(len(columns)) if not shown or any(row[place] for row in shown)]
    columns, shown = [columns[place] for place in filled], [[row[place] for place in filled] for row in shown]
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=headed)
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(columns[-1], overflow="fold")
    for row in shown:
        table.add_row(*(Text(value, style=_STYLES.get(value, "")) for value in row))
    kept = sum(2 + max(map(cell_len, cells)) for cells in zip(columns, *shown, strict=True)) - 2
    last = max(cell_len(row[-1]) for row in [columns, *shown])
    seen = Console().size
    width = max(seen.width, kept - last + min(last, _LEAST))
    Console(width=width, height=seen.height).print(table)


def print_fields(facts: Sequence[tuple[str, object]]) -> None:
    """Name and value by line, without those that have no value. Further lines of a value stand below its first."""
    shown = [(name, str(value)) for name, value in facts if value not in ("", None)]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        lines = visible(value).replace("\n", f"\n{'':{width}}  ")
        print(f"{name:<{width}}  {lines}")


def say(name: str, line: str) -> None:
    """A line on stderr under the name of the process that it is of."""
    print(under_name(name, line), file=sys.stderr)


def under_name(name: str, line: str) -> str:
    """A line under the name of the process that it is of."""
    prefix = f"{name:<{_WIDTH}} |"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        prefix = f"\x1b[{_COLORS.get(name, 37)}m{prefix}\x1b[0m"
    return f"{prefix} {line}"


# --- tasks ------------------------------------------------------------------------------------------------------------


def task_json(task: t.Task) -> dict[str, Any]:
    """A task for programs."""
    shown: dict[str, Any] = {
        "id": task.id,
        "lambda": getattr(task, "lambda"),
        "priority": task.priority,
        "status": status_name(task.status),
        "attempts": task.attempts,
        "losses": task.losses,
        "runs": task.runs,
        "scheduled_at_us": task.scheduled_at_us,
        "next_at_us": task.next_at_us,
        "created_at_us": task.created_at_us,
        "enqueued_at_us": task.enqueued_at_us,
        "claimed_at_us": task.claimed_at_us,
        "started_at_us": task.started_at_us,
        "failed_at_us": task.failed_at_us,
        "finished_at_us": task.finished_at_us,
        "owner": task.owner,
        "cancel_requested": task.cancel_requested,
        "progress": task.progress,
        "error": task.error,
        "error_type": task.error_type,
        "error_message": task.error_message,
        "ended_runs": [
            {
                "owner": run.owner,
                "started_at_us": run.started_at_us,
                "ended_at_us": run.ended_at_us,
                "why": run.why,
                "attempt": run.attempt,
            }
            for run in task.ended_runs
        ],
        **bytes_json("result", task.result, task.result_encoding),
    }
    if task.HasField("spec"):
        spec = task.spec
        shown |= bytes_json("payload", spec.payload, spec.encoding)
        shown |= {"labels": dict(spec.labels), "ordering_key": spec.ordering_key}
        shown["concurrency_key"] = spec.concurrency.key
    return shown


def print_task(task: t.Task, of_failed: int = 0) -> None:
    """A task for people; `of_failed`: it is the last of so many of its lambda that failed."""
    shown, failed = task_json(task), failure_of(task.error)
    others = f", the last of {of_failed} that failed: atf ls {shown['lambda']} --failed" if of_failed > 1 else ""
    print_fields(
        [
            ("id", task.id),
            ("lambda", shown["lambda"]),
            ("status", shown["status"] + (", cancellation asked for" if task.cancel_requested else "") + others),
            ("priority", task.priority),
            ("scheduled for", when(task.scheduled_at_us)),
            ("looked at again", when(task.next_at_us)),
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
            ("result", _text(shown, "result")),
            ("error", failed.headline),
            ("traceback", failed.traceback.partition("\n")[2]),
            ("runs", "\n".join(_ended_runs(task.ended_runs))),
            ("run it again", f"atf retry {task.id}" if task.status in (t.FATAL_FAILURE, t.CANCELLED) else ""),
            ("run all again", f"atf retry {shown['lambda']}" if task.status == t.FATAL_FAILURE else ""),
        ]
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


def lambda_json(info: f.LambdaInfo) -> dict[str, Any]:
    """A registered lambda for programs."""
    return {
        "name": info.spec.name,
        "signature": info.spec.signature,
        "paused": info.paused,
        "counts": dict(sorted(info.counts.items())),
        "queues": [queue_json(queue) for queue in info.queues],
    }


def settings_json(info: f.LambdaInfo) -> dict[str, Any]:
    """What holds of a lambda, what of it was set, and what its code says; for programs."""
    return {
        "name": info.spec.name,
        "paused": info.paused,
        "settings": settings_of(info.in_force),
        "set": dict(sorted(info.overrides.items())),
        "code": settings_of(info.spec),
    }


def queue_json(queue: f.QueueInfo) -> dict[str, Any]:
    """A queue for programs."""
    return {
        "name": queue.name,
        "partition": queue.partition,
        "priority": queue.priority,
        "depth": queue.depth,
        "limit": queue.limit,
    }


def status_name(status: int) -> str:
    """A status of the wire by its name."""
    try:
        return str(t.Status.Name(status))
    except ValueError:  # of a newer frontend
        return f"STATUS_{status}"


def when(at_us: int) -> str:
    """An instant for people, in local time; empty for none."""
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC).astimezone().isoformat(" ", "milliseconds") if at_us else ""
    except (ValueError, OverflowError, OSError):  # no year has it
        return f"{at_us} µs"


def bytes_json(name: str, value: bytes, encoding: int) -> dict[str, Any]:
    """A payload or result for programs, under its name if it is JSON, else in base64."""
    if not value:
        return {name: None}
    if encoding == t.JSON:
        try:
            return {name: json.loads(value, parse_constant=_finite, parse_float=_finite)}
        except (ValueError, RecursionError):
            pass  # not what it says it is, or a bomb: show it as it is
    return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"JSON has no {text}")
    return number


def _text(shown: dict[str, Any], name: str) -> str:
    if f"{name}_base64" in shown:
        return f"{len(base64.b64decode(shown[f'{name}_base64']))} bytes"
    value = shown.get(name)
    return "" if value is None else json.dumps(value, ensure_ascii=False)
