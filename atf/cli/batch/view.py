"""How `atf batch` shows where a batch stands: as it goes on, as a page, and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from atf.cli.json_values import message_json, print_json
from atf.cli.options import wants_json
from atf.cli.output import Columns, show_fields, show_rows, when
from atf.cli.progress import View
from atf.client import AsyncClient, BatchProgress
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.rpc import batch_pb2 as b
from atf.sdk.batch import BatchStatus
from atf.sdk.batch_info import Rate
from atf.task import US
from atf.times import length
from atf.visible import one_line

_EVERY_S: Final = 0.25
"""Seconds between two looks."""


async def follow(client: AsyncClient, batch_id: str, shown: View) -> int:
    """Shows a batch until it has ended; the exit code that says how."""
    rate, last = Rate(), b.Batch()
    async with aclosing(client.watch_batch(batch_id, _EVERY_S)) as seen:
        async for last in seen:
            shown.show(BatchView(BatchProgress.from_proto(last, rate.of(last))))
    if wants_json():
        print_json(batch_json(last))
    else:
        shown.say(one_line(BatchView(BatchProgress.from_proto(last, rate.of(last))).line()))
    return EXIT_OK if last.status == b.BATCH_DONE else EXIT_FAILED


@dataclass(frozen=True)
class SubmitProgress:
    """How many rows were sent."""

    sent: int
    count: int
    """0: nobody knows."""

    def line(self) -> str:
        return f"submitted {self.sent}{f' of {self.count}' if self.count else ''}"

    def picture(self) -> RenderableType:
        return _bar(self.sent, self.count, self.line())


@dataclass(frozen=True)
class BatchView:
    """Where a batch stands."""

    now: BatchProgress

    def line(self) -> str:
        now = self.now
        parts = [
            f"{now.status.name.lower().replace('_', ' ')}: {now.finished} of {now.items} items",
            f"{now.permanently_failed} failed" if now.permanently_failed else "",
            f"{now.cancelled} cancelled" if now.cancelled else "",
            f"{now.failed} to run again" if now.failed else "",
        ]
        if not now.ended:
            parts.append(f"{_rate(now.rate)}/s")
            parts.append(f"{length(round(now.seconds_to_go) * US)} to go" if now.seconds_to_go is not None else "")
        return ", ".join(each for each in parts if each)

    def picture(self) -> RenderableType:
        return _bar(self.now.finished, self.now.items, self.line())


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _bar(done: int, count: int, text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=max(1, count), completed=done, width=40), text)
    return grid


def batch_word(status: int) -> str:
    """A batch's status as people write it."""
    try:
        return BatchStatus(status).name.lower()
    except ValueError:  # of a newer frontend
        return str(status)


def batch_json(batch: b.Batch) -> dict[str, Any]:
    """A batch for programs."""
    names = (
        "id lambda status items created in_progress done failed permanently_failed cancelled sealed prefix"
        " created_at_us ended_at_us round cancel_requested error"
    )
    return message_json(batch, names) | {"status": batch_word(batch.status)}


def show_batch(batch: b.Batch) -> None:
    """A batch as a page, or for programs."""
    now = BatchProgress.from_proto(batch, Rate().of(batch))
    togo = now.seconds_to_go
    asked = ", cancellation asked for" if batch.cancel_requested and not now.ended else ""
    show_fields(
        batch_json(batch),
        [
            ("batch", batch.id),
            ("lambda", getattr(batch, "lambda")),
            ("status", batch_word(batch.status) + asked),
            ("items", f"{batch.items}{'' if batch.sealed else ', and more may come'}"),
            ("created", batch.created or ""),
            ("in progress", batch.in_progress or ""),
            ("done", batch.done or ""),
            ("to run again", batch.failed or ""),
            ("failed for good", batch.permanently_failed or ""),
            ("cancelled", batch.cancelled or ""),
            ("round", batch.round if batch.round > 1 else ""),
            ("made", when(batch.created_at_us)),
            ("ended", when(batch.ended_at_us)),
            ("rate", f"{_rate(now.rate)} items/s" if now.rate and not now.ended else ""),
            ("a callback was not made" if batch.items else "it could not be made", batch.error),
            ("to go", length(round(togo) * US) if togo is not None and not now.ended else ""),
        ],
    )


def show_batches(found: Sequence[b.Batch]) -> None:
    """Batches that were changed: one as a page, several as a table."""
    if len(found) == 1:
        show_batch(found[0])
    else:
        list_batches(found)


def list_batches(found: Sequence[b.Batch]) -> None:
    """Batches as a table, or for programs."""
    columns: Columns[b.Batch] = {
        "batch": "id",
        "lambda": "lambda",
        "status": lambda each: batch_word(each.status),
        "items": "items",
        "done": "done",
        "failed": "permanently_failed",
        "cancelled": "cancelled",
        "created": lambda each: when(each.created_at_us),
    }
    show_rows(found, batch_json, columns)
