"""Actions on a batch: cancel, retry, delete."""

from __future__ import annotations

from typing import Final

from atf.errors import NotFound
from atf.rpc import api, batch_pb2 as b

from .action import Action, Values, said


async def _cancel(frontend: api.Frontend, values: Values, who: str) -> str:
    await frontend.cancel_batch(b.CancelBatchRequest(id=values["batch"], **said(values, who)))
    return "Its items are being cancelled; those that run are asked to stop."


async def _retry(frontend: api.Frontend, values: Values, who: str) -> str:
    await frontend.retry_batch(b.RetryBatchRequest(id=values["batch"], **said(values, who)))
    return "Its dead items run again."


async def _delete(frontend: api.Frontend, values: Values, who: str) -> str:
    if not (await frontend.delete_batch(b.DeleteBatchRequest(id=values["batch"], **said(values, who)))).existed:
        raise NotFound(f"there is no batch {values['batch']}")
    return "It is being deleted, with its items."


ACTIONS: Final = (
    Action(
        "cancel-batch",
        "Cancel",
        "Every item that has not started is cancelled; those that run are asked to stop.",
        ("batch",),
        ("atf", "batch", "cancel", "{batch}"),
        _cancel,
        tone="danger",
    ),
    Action(
        "retry-batch",
        "Retry the dead",
        "Every item that failed for good starts afresh.",
        ("batch",),
        ("atf", "batch", "retry", "{batch}"),
        _retry,
    ),
    Action(
        "delete-batch",
        "Delete",
        "Deletes a batch that has ended, with its items and their results.",
        ("batch",),
        ("atf", "batch", "delete", "{batch}"),
        _delete,
        tone="danger",
    ),
)
