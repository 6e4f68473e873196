"""Actions on ordering keys that have stopped: resume, skip."""

from __future__ import annotations

from typing import Any, Final

from atf.rpc import api, frontend_pb2 as f

from .action import Action, Values, said

_TARGET: Final = ("lambda", "key", "task")


def _of(values: Values, who: str) -> dict[str, Any]:
    return {"lambda": values["lambda"], "key": values["key"], "task_id": values["task"], **said(values, who)}


async def _resume(frontend: api.Frontend, values: Values, who: str) -> str:
    done = await frontend.resume_key(f.ResumeKeyRequest(**_of(values, who)))
    return "Its task runs again, and the others follow." if done.retried else "It goes on; that task can't run again."


async def _skip(frontend: api.Frontend, values: Values, who: str) -> str:
    done = await frontend.skip_key(f.SkipKeyRequest(**_of(values, who)))
    return f"It goes on without task {done.task_id}, which stays dead."


ACTIONS: Final = (
    Action(
        "resume-key",
        "Resume",
        "The task that stopped it runs again, with all its attempts. The key's other tasks follow in their order.",
        _TARGET,
        ("atf", "key", "resume", "{lambda}", "{key}"),
        _resume,
    ),
    Action(
        "skip-key",
        "Skip",
        "The task that stopped it stays dead. The key's other tasks go on in their order.",
        _TARGET,
        ("atf", "key", "skip", "{lambda}", "{key}"),
        _skip,
        tone="danger",
    ),
)
