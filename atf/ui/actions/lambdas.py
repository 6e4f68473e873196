"""Actions on a lambda: pause, resume, settings, forget."""

from __future__ import annotations

from typing import Any, Final

from atf.errors import InvalidArgument
from atf.rpc import api, frontend_pb2 as f

from .action import WHY, Action, FormField, Values, said


def _of(values: Values) -> dict[str, Any]:
    """The field whose name is a keyword."""
    return {"lambda": values["lambda"]}


async def _pause(frontend: api.Frontend, values: Values, who: str) -> str:
    await frontend.pause_lambda(f.PauseLambdaRequest(**_of(values), **said(values, who)))
    return "It is paused: tasks are accepted and wait."


async def _resume(frontend: api.Frontend, values: Values, who: str) -> str:
    await frontend.resume_lambda(f.ResumeLambdaRequest(**_of(values), **said(values, who)))
    return "It runs again."


async def _set(frontend: api.Frontend, values: Values, who: str) -> str:
    name, equals, value = values["setting"].partition("=")
    if not name or not equals:
        raise InvalidArgument(f"{values['setting'][:80]!r}: write NAME=VALUE, such as rate=100")
    await frontend.set_lambda(f.SetLambdaRequest(**_of(values), set={name: value}, **said(values, who)))
    return f"{name} is {value or 'empty'} now; within a second it holds everywhere."


async def _unset(frontend: api.Frontend, values: Values, who: str) -> str:
    await frontend.set_lambda(f.SetLambdaRequest(**_of(values), unset=[values["setting"]], **said(values, who)))
    return f"{values['setting']} is as the code says again."


async def _forget(frontend: api.Frontend, values: Values, who: str) -> str:
    request = f.DeleteLambdaRequest(**_of(values), **said(values, who))
    done = await frontend.delete_lambda(request)
    return "It is forgotten." if done.deleted else "Not yet: call again."


ACTIONS: Final = (
    Action(
        "pause-lambda",
        "Pause",
        "No more of its tasks start. It goes on accepting tasks, and what runs goes on.",
        ("lambda",),
        ("atf", "pause", "{lambda}"),
        _pause,
    ),
    Action(
        "resume-lambda",
        "Resume",
        "Its tasks start again, those that have waited too.",
        ("lambda",),
        ("atf", "resume", "{lambda}"),
        _resume,
    ),
    Action(
        "set-lambda",
        "Set",
        "Goes before what the code says, until it is unset. The value none lifts a bound.",
        ("lambda",),
        ("atf", "lambda", "set", "{lambda}", "{setting}"),
        _set,
        (FormField("setting", "Setting", hint="rate=100, max_running=8, queue_limit=500 …", required=True), WHY),
    ),
    Action(
        "unset-lambda",
        "Unset",
        "The code's own value holds again.",
        ("lambda", "setting"),
        ("atf", "lambda", "unset", "{lambda}", "{setting}"),
        _unset,
    ),
    Action(
        "forget-lambda",
        "Forget",
        "For a lambda that no code has any more. Refused while workers run it, tasks of it are unfinished, or a job names it.",
        ("lambda",),
        ("atf", "lambda", "rm", "{lambda}"),
        _forget,
        tone="danger",
    ),
)
