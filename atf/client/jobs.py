"""Jobs, as a client makes and sees them."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.runtime import new_id
from atf.sdk.handle import Handle
from atf.sdk.job import OF_TASKS, TIMING, job_spec
from atf.sdk.messages import value_of
from atf.sdk.option_kinds import JobOptions
from atf.sdk.option_names import check_names
from atf.sdk.options import from_us, instant_us
from atf.sdk.payload import short
from atf.sdk.requests import of_single_tasks
from atf.sdk.schedulable import Prepared
from atf.task import Status

from .paging import entries
from .tasks import TaskCalls
from .whoami import signed


@dataclass(frozen=True)
class JobInfo:
    """A job's record at one instant."""

    name: str
    lambda_name: str
    schedule: str
    """As it was given; empty: one tick, at due_time."""
    tz: str
    """As it was given; empty: the one that the schedule names, or UTC."""
    next_tick_at: datetime | None
    """None: it has ended."""
    last_tick_at: datetime | None
    """The newest tick that became a task; None: none yet."""
    last_task_id: str
    last_status: Status | None
    """How that task ended; None: it has not."""
    ticks: int
    """That became tasks."""
    skipped: int
    """Ticks that did not."""
    skipped_why: str
    """The newest of them."""
    paused: bool
    generation: int
    """Grows with each replacement."""
    created_at: datetime | None
    from_code: bool
    """Whether it was registered with the code of its lambda."""

    @classmethod
    def from_proto(cls, job: j.Job) -> JobInfo:
        return value_of(
            cls,
            job,
            name=job.spec.name,
            lambda_name=getattr(job.spec.task, "lambda"),
            schedule=job.spec.schedule,
            tz=job.spec.tz,
            last_status=Status(job.last_status) if job.last_status else None,
            from_code=bool(job.spec.code),
        )


class JobCalls(TaskCalls):
    """The part of AsyncClient that is about jobs."""

    async def schedule_job(
        self,
        name: str,
        task: Prepared[Any],
        schedule: str | None = None,
        *,
        overwrite: bool = False,
        why: str = "",
        who: str = "",
        **options: Unpack[JobOptions],
    ) -> JobInfo:
        """Makes a job: each tick of its schedule makes a task.

        Args:
            name: "namespace/name".
            task: what each tick makes, from `thumbnail.prepare(...)`. When it is due, how often it is tried and what it waits for say `options`, so it
                has no delay, at, key, durability, ordering_key, concurrency_key, unique, affinity_key, max_attempts or backoff.
            schedule: cron of six fields, seconds first; @daily and its like; `@every 10s`; `R4/PT3S`. None: one tick, at due_time.
            overwrite: replace a job of this name. Where schedule, tz, due_time, ttl and repeats mean the same, it goes on from where that
                one stands; docs/how-to/jobs.md, *When a job is replaced*.
            why, who: for the audit log.
            options: see JobOptions.

        Raises:
            InvalidArgument: the frontend refused it, and says where; or the task has an option that a tick's can't have. Nothing was
                stored, and a job of this name is as it was.
            TypeError: a job has no such option.
            AlreadyExists: there is a job of this name.
            UnknownLambda, Unavailable, DeadlineExceeded, ResourceExhausted: as for `schedule`.
        """
        request = f.ScheduleJobRequest(
            job=job_spec(name, _of_tick(name, task), schedule, options),
            overwrite=overwrite,
            request_id=new_id(self._runtime.random),
            **signed(who, why),
        )
        return JobInfo.from_proto(await self._calls.schedule_job(request))

    async def get_job(self, name: str) -> JobInfo:
        """A job's record.

        Raises:
            NotFound: there is none, or the record of one that has ended has expired.
        """
        return JobInfo.from_proto(await self._calls.get_job(f.GetJobRequest(name=name)))

    async def list_jobs(self, prefix: str = "", *, limit: int = 100) -> builtins.list[JobInfo]:
        """Jobs that have not ended.

        Args:
            prefix: of their names; "shop/" is all of a namespace.
            limit: how many at most.
        """
        request = f.ListJobsRequest(prefix=prefix)
        found = await entries(self._calls.list_jobs, request, lambda page: page.jobs, limit)
        return [JobInfo.from_proto(each) for each in found]

    async def delete_job(self, name: str, *, why: str = "", who: str = "") -> bool:
        """Deletes a job, and cancels its tasks that have not started; whether there was one. What runs goes on, and does not run again.

        From the answer on no executor is given a task of the job. If the call fails, some of its tasks may be cancelled: call again.
        `why` and `who` are for the audit log.
        """
        return (await self._calls.delete_job(f.DeleteJobRequest(name=name, **signed(who, why)))).existed

    async def delete_jobs(self, prefix: str, *, why: str = "", who: str = "") -> int:
        """Deletes the jobs whose names begin so ("*": all), and their tasks as `delete_job` does; how many there were."""
        request = f.DeleteJobsByPrefixRequest(prefix=prefix, **signed(who, why))
        return (await self._calls.delete_jobs_by_prefix(request)).deleted

    async def pause_job(self, name: str, *, why: str = "", who: str = "") -> JobInfo:
        """Stops a job's ticks, those that wait as tasks too, until `resume_job`; what runs goes on, and is not tried again before that.

        Raises:
            NotFound: there is none, or it has ended and has no live tasks.
        """
        return JobInfo.from_proto(await self._calls.pause_job(f.PauseJobRequest(name=name, **signed(who, why))))

    async def resume_job(self, name: str, *, why: str = "", who: str = "") -> JobInfo:
        """Lets a paused job tick again; what becomes of the ticks it has missed is its misfire policy. Those that were kept as tasks run.

        Raises:
            NotFound: there is none, or it has ended and has no live tasks.
        """
        return JobInfo.from_proto(await self._calls.resume_job(f.ResumeJobRequest(name=name, **signed(who, why))))

    async def run_job_now(self, name: str, *, why: str = "", who: str = "") -> Handle[Any]:
        """Makes a task of a job now, beside its ticks.

        Raises:
            NotFound: there is no such job.
        """
        request = f.RunJobNowRequest(name=name, task_id=new_id(self._runtime.random), **signed(who, why))
        return self.handle((await self._calls.run_job_now(request)).id)

    async def preview_schedule(
        self,
        schedule: str | None = None,
        *,
        count: int = 5,
        start: datetime | None = None,
        **options: Unpack[JobOptions],
    ) -> builtins.list[datetime]:
        """The next ticks that a job would have, in UTC; fewer than `count` where it ends.

        Args:
            schedule: as for `schedule_job`.
            options: due_time, ttl, repeats, tz, format, gap and fold, as for `schedule_job`; the others change no tick.
            count: how many, 1 to 100.
            start: when it would be made; None: now.

        Raises:
            InvalidArgument: the schedule can't be read; says where.
            TypeError: an option changes no tick, or there is none of this name.
        """
        without = dict.fromkeys(JobOptions.__annotations__, "it changes no tick; leave it out")
        check_names("preview_schedule()", options, TIMING, without)
        spec = job_spec("", t.TaskSpec(), schedule, options)
        from_at_us = 0 if start is None else max(1, instant_us(start, "start"))
        request = f.PreviewScheduleRequest(job=spec, count=count, from_at_us=from_at_us)
        reply = await self._calls.preview_schedule(request)
        return [at for each in reply.ticks_at_us if (at := from_us(each)) is not None]


def _of_tick(name: str, task: Prepared[Any]) -> t.TaskSpec:
    """What each tick makes.

    Raises:
        TypeError: it is no prepared task.
        InvalidArgument: the task has an option that a tick's can't have.
    """
    if not isinstance(task, Prepared):
        raise TypeError(f"job {name}: {short(task)} is no prepared task: write thumbnail.prepare(…)")
    spec = task.request.spec
    given = list(of_single_tasks(task.request, keyed=task.keyed))
    given += ["affinity_key"] * bool(spec.affinity_key)
    given += [each for each in ("max_attempts", "backoff") if spec.options.HasField(each)]
    for option in given:
        raise InvalidArgument(f"job {name}: the task of a tick has no {option}: {OF_TASKS[option]}")
    return spec
