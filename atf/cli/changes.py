"""Commands that change tasks by their ids: cancel; and what retry shares with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import click

from atf.client.whoami import signed, whoami
from atf.errors import FailedPrecondition, TaskNotFound
from atf.rpc import api, frontend_pb2 as f, task_pb2 as t
from atf.task import MAX_BATCH

from .confirmation import confirm
from .json_values import message_json
from .options import bulk_flags, lists, wants_json, why_flag
from .output import show_rows
from .remote import ask
from .task_view import status_name

_AT_ONCE: Final = 32
"""Tasks that are asked for at the same time."""


@click.command()
@click.argument("ids", metavar="TASK...", nargs=-1, required=True)
@why_flag
@bulk_flags
@lists
def cancel(ids: tuple[str, ...], why: str, dry_run: bool) -> None:
    """Cancel tasks. What has not started never will; what runs is asked to stop."""
    if dry_run:
        show_would(ids, _would_cancel)
        return
    confirm(f"Cancel {len(ids)} tasks", many=len(ids) > 1)
    said = signed(whoami(), why)
    results = ask(lambda stub: batched(ids, lambda some: stub.cancel_tasks(f.CancelTasksRequest(ids=some, **said))))

    def word(result: f.CancelResult) -> str:
        if result.cancelled or result.status == t.CANCELLED:
            return "cancelled"
        return "asked to stop" if result.cancel_requested else f"already {status_name(result.status)}"

    show_results(results, word, "cancelled cancel_requested")
    late = [r.id for r in results if r.status in {t.SUCCESS, t.FATAL_FAILURE} and not r.cancel_requested]
    if late:
        raise FailedPrecondition(f"already finished, not cancelled: {', '.join(late)}")


def _would_cancel(status: int) -> str:
    if status in {t.CLAIMED, t.PROCESSING}:
        return "would be asked to stop"
    finished = status in {t.SUCCESS, t.FATAL_FAILURE, t.CANCELLED}
    return f"already {status_name(status)}" if finished else "would be cancelled"


async def batched(ids: Sequence[str], call: Callable[[Sequence[str]], Awaitable[Any]]) -> list[Any]:
    """The results of all ids, from as many calls as they need."""
    replies = [await call(ids[at : at + MAX_BATCH]) for at in range(0, len(ids), MAX_BATCH)]
    return [result for reply in replies for result in reply.results]


def show_would(ids: Sequence[str], word: Callable[[int], str]) -> None:
    """Shows what would become of each id, by the status that its task has.

    Raises:
        TaskNotFound: some of them do not exist; the others are shown.
    """
    found = ask(lambda stub: _statuses(stub, ids))
    results = [f.CancelResult(id=each, status=status) for each, status in found.items()]  # type: ignore[arg-type]
    show_results(results, lambda result: word(result.status), "")


async def _statuses(stub: api.Frontend, ids: Sequence[str]) -> dict[str, int]:
    """Where each task stands, by its id; 0 where there is none."""

    async def one(task_id: str) -> int:
        try:
            return (await stub.get_task(f.GetTaskRequest(id=task_id))).status
        except TaskNotFound:
            return 0

    found: dict[str, int] = {}
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        found |= dict(zip(some, await asyncio.gather(*map(one, some)), strict=True))
    return found


def show_results(results: Sequence[Any], word: Callable[[Any], str], flags: str) -> None:
    """Shows what became of each id, or would; for programs `flags` of the results, or the word where there are none.

    Raises:
        TaskNotFound: some of them do not exist; the others are done and shown.
    """

    def as_json(result: Any) -> dict[str, Any]:
        status = status_name(result.status) if result.status else None
        told = message_json(result, flags) if flags else {"dry_run": word(result) if status else None}
        return {"id": result.id, "status": status, **told}

    shown = results if wants_json() else [result for result in results if result.status]
    show_rows(shown, as_json, {"task": "id", "outcome": word, "status": lambda result: status_name(result.status)})
    sys.stdout.flush()
    if missing := [result.id for result in results if not result.status]:
        raise TaskNotFound(f"no such task: {', '.join(missing)}")
