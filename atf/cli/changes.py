"""`atf cancel`: tasks by their ids, or all that match a filter; and what `atf retry` shares with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import click

from atf.client.info import CancelInfo
from atf.client.matching import cancel_all
from atf.client.whoami import signed, whoami
from atf.errors import FailedPrecondition, TaskNotFound
from atf.rpc import api, frontend_pb2 as f, task_pb2 as t
from atf.task import MAX_BATCH

from .confirmation import confirm, require_terminal
from .json_values import message_json
from .matching import lambda_meant, name_of, told
from .options import bulk_flags, kept, lists, wants_json, why_flag
from .output import show, show_rows
from .remote import ask
from .task_filter import filter_flags, task_filter
from .task_view import status_name

_AT_ONCE: Final = 32
"""Tasks that are asked for at the same time."""


@click.command()
@click.argument("ids", metavar="[TASK...|LAMBDA]", nargs=-1)
@filter_flags
@why_flag
@bulk_flags
@lists
def cancel(ids: tuple[str, ...], why: str, dry_run: bool, **flags: Any) -> None:
    """Cancel tasks: TASK by id, or all of LAMBDA, of a namespace as NAME/*, or of all, that match. What has not started never will; what runs is asked to stop.

    \b
    atf cancel 3-0a1b2c3d4e5f60718293a4b5
    atf cancel shop/mail --status waiting --label team=web --dry-run   says how many, and some of them
    atf cancel --search order_id=7 --why "customer 812 asked for it"
    """
    lambda_name = lambda_meant(ids, flags)
    if lambda_name is None:
        _by_id(ids, why, dry_run)
    else:
        _by_filter(f.CancelMatchingRequest(filter=task_filter(lambda_name, flags), who=whoami(), why=why), dry_run)


def _by_filter(request: f.CancelMatchingRequest, dry_run: bool) -> None:
    name = name_of(request.filter)
    require_terminal(many=not dry_run)
    if dry_run or not kept("yes"):
        looking = f.CancelMatchingRequest(dry_run=True)
        looking.MergeFrom(request)
        would = ask(lambda stub: cancel_all(looking, stub.cancel_matching, told()))
        such = f", such as {', '.join(would.ids)}" if would.ids else ""
        if dry_run or not (would.matched or wants_json()):
            again = "; without --dry-run they are cancelled" if would.matched else ""
            show(_json(request, would, dry_run), f"{name}: {_count(would.matched)} that can be cancelled{such}{again}")
            return
        confirm(f"Cancel {_count(would.matched)} of {name}{such}")
    request.dry_run = False
    done = ask(lambda stub: cancel_all(request, stub.cancel_matching, told()))
    asked = f", {done.requested} that run asked to stop" if done.requested else ""
    show(_json(request, done, dry_run), f"{name}: {_count(done.cancelled)} cancelled{asked}")


def _count(tasks: int) -> str:
    return f"{tasks or 'no'} task{'' if tasks == 1 else 's'}"


def _json(request: f.CancelMatchingRequest, done: CancelInfo, dry_run: bool) -> dict[str, Any]:
    return {
        "lambda": getattr(request.filter, "lambda"),
        "dry_run": dry_run,
        "matched": done.matched,
        "cancelled": done.cancelled,
        "requested": done.requested,
        "looked_at": done.looked_at,
        "ids": list(done.ids),
    }


def _by_id(ids: tuple[str, ...], why: str, dry_run: bool) -> None:
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
