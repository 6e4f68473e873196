"""Actions on a job: run, pause, resume, delete."""

from __future__ import annotations

from typing import Final

from atf.errors import NotFound
from atf.rpc import api, frontend_pb2 as f
from atf.runtime import SystemRuntime, new_id

from .action import Action, Do, Values, said


async def _run(frontend: api.Frontend, values: Values, who: str) -> str:
    request = f.RunJobNowRequest(name=values["job"], task_id=new_id(SystemRuntime().random), **said(values, who))
    return f"Task {(await frontend.run_job_now(request)).id} was made."


async def _pause(frontend: api.Frontend, values: Values, who: str) -> str:
    await frontend.pause_job(f.PauseJobRequest(name=values["job"], **said(values, who)))
    return "It does not tick until it is resumed."


async def _resume(frontend: api.Frontend, values: Values, who: str) -> str:
    await frontend.resume_job(f.ResumeJobRequest(name=values["job"], **said(values, who)))
    return "It ticks again."


async def _delete(frontend: api.Frontend, values: Values, who: str) -> str:
    if not (await frontend.delete_job(f.DeleteJobRequest(name=values["job"], **said(values, who)))).existed:
        raise NotFound(f"there is no job {values['job']}")
    return "It is deleted."


def _job(name: str, label: str, says: str, verb: str, do: Do, tone: str = "") -> Action:
    return Action(name, label, says, ("job",), ("atf", "job", verb, "{job}"), do, tone=tone)


ACTIONS: Final = (
    _job("run-job", "Run now", "Makes a task of it now, beside its ticks.", "run", _run),
    _job(
        "pause-job",
        "Pause",
        "It does not tick, and its tasks that wait do not start. What runs goes on.",
        "pause",
        _pause,
    ),
    _job(
        "resume-job",
        "Resume",
        "It ticks again. Its misfire policy says what becomes of the ticks that it has missed.",
        "resume",
        _resume,
    ),
    _job("delete-job", "Delete", "Deletes it, and cancels its tasks that have not started.", "rm", _delete, "danger"),
)
