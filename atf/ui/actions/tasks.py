"""Actions on one task: cancel, retry."""

from __future__ import annotations

from typing import Final

from atf.errors import FailedPrecondition, TaskNotFound
from atf.rpc import api, frontend_pb2 as f
from atf.task import key_held
from atf.ui.words import task_word

from .action import Action, Values, said


async def _cancel(frontend: api.Frontend, values: Values, who: str) -> str:
    (result,) = (await frontend.cancel_tasks(f.CancelTasksRequest(ids=[values["id"]], **said(values, who)))).results
    if not result.status:
        raise TaskNotFound(f"there is no task {values['id']}")
    if result.cancelled:
        return "It is cancelled."
    if result.cancel_requested:
        return "It runs; its executor is told to stop with its next heartbeat."
    raise FailedPrecondition(f"It is {task_word(result.status).word} already: there is nothing to cancel.")


async def _retry(frontend: api.Frontend, values: Values, who: str) -> str:
    (result,) = (await frontend.retry_tasks(f.RetryTasksRequest(ids=[values["id"]], **said(values, who)))).results
    if not result.status:
        raise TaskNotFound(f"there is no task {values['id']}")
    if result.held_by:
        raise FailedPrecondition(key_held(result.held_by))
    if not result.retried:
        raise FailedPrecondition(f"It is {task_word(result.status).word}: only dead or cancelled tasks run again.")
    return "It runs again, with all its attempts."


ACTIONS: Final = (
    Action(
        "cancel-task",
        "Cancel",
        "A task that has not started never will. One that runs is asked to stop.",
        ("id",),
        ("atf", "cancel", "{id}"),
        _cancel,
        tone="danger",
    ),
    Action(
        "retry-task",
        "Retry",
        "It runs again now, with all its attempts and the same arguments.",
        ("id",),
        ("atf", "retry", "{id}"),
        _retry,
    ),
)
