"""The pages of batches: all of them, and one with its items."""

from __future__ import annotations

from typing import Final

from atf.rpc import batch_pb2 as b
from atf.ui.veils import veil_over
from atf.ui.visit import PageView, Visit
from atf.ui.words import lambda_of

ROWS: Final = 50
_STATUSES: Final = {
    "any": (),
    "waiting": (b.ITEM_CREATED, b.ITEM_FAILED),
    "running": (b.ITEM_IN_PROGRESS,),
    "dead": (b.ITEM_PERMANENTLY_FAILED,),
    "done": (b.ITEM_DONE,),
    "cancelled": (b.ITEM_CANCELLED,),
}


async def batches(visit: Visit) -> PageView:
    """The batches, newest first, a page of them."""
    request = b.ListBatchesRequest(page_size=ROWS, page_token=visit.query.get("page", ""))
    setattr(request, "lambda", visit.query.get("lambda", ""))
    found = await visit.read(visit.frontend.list_batches, request)
    rows = [{"batch": each, "bar": _bar(each)} for each in found.batches[:ROWS]]
    return PageView("batches.html", "Batches", {"rows": rows, "next": found.next_page_token})


async def batch(visit: Visit) -> PageView:
    """One batch, with a page of its items."""
    status = visit.word("status", tuple(_STATUSES))
    found = await visit.read(visit.frontend.get_batch, b.GetBatchRequest(id=visit.names["id"], with_spec=True))
    request = b.ListBatchItemsRequest(
        id=visit.names["id"], statuses=_STATUSES[status], page_size=ROWS, page_token=visit.query.get("page", "")
    )
    items = await visit.read(visit.frontend.list_batch_items, request)
    values = {
        "batch": found,
        "bar": _bar(found),
        "items": items.items[:ROWS],
        "veil": veil_over(lambda_of(found), items.items, ["atf", "batch", "results", found.id, "--codec-keys", "FILE"]),
        "next": items.next_page_token,
        "status": status,
        "statuses": tuple(_STATUSES),
    }
    return PageView("batch.html", f"Batch {found.id}", values)


def _bar(found: b.Batch) -> list[dict[str, object]]:
    """How its items stand, as parts of a bar."""
    counts = {
        "done": found.done,
        "dead": found.permanently_failed,
        "cancelled": found.cancelled,
        "failed": found.failed,
        "running": found.in_progress,
        "waiting": found.created,
    }
    tones = {"done": "good", "dead": "bad", "cancelled": "off", "failed": "warn", "running": "run", "waiting": "wait"}
    at, parts = 0.0, []
    for word, number in counts.items():
        width = number / (found.items or 1) * 1_000
        if number:
            parts.append(
                {"word": word, "number": number, "tone": tones[word], "x": round(at, 2), "width": round(width, 2)}
            )
        at += width
    return parts
