"""Answers the RPCs about jobs. When a job ticks is for atf.schedule to say."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import compress, islice
from typing import Final

from atf import task as rules
from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.errors import AlreadyExists, AtfError, InvalidArgument, NotFound, Unavailable
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.schedule.instants import LATEST_US
from atf.schedule.job_plan import plan_of
from atf.store.values.jobs import JobAnswer, JobRecord, MadeJob, NewJob, PausedJob

from .audit import CHANGED_NOTHING, AuditDraft, signature, some_of
from .found import permit_found
from .new_job import new_job
from .page_tokens import opened, sealed
from .scheduling import MAX_REQUESTS, ScheduleRpcs
from .validate import bad_page_token, check_count, lambda_of, page_size, shown
from .view import set_error, stored

DEFAULT_PREVIEW: Final = 5
MAX_PREVIEW: Final = 100
_ANSWER_BYTES: Final = 2 << 20
"""Where a page stops to grow: with the job added last, of a payload of 1 MiB, it stays below 4 MiB."""
_READ_TOGETHER: Final = 8
_MOST_LOOKS: Final = 10_000
"""Jobs of which one call of ListJobs reads the records, where the caller may see few of them: then its page is short."""
_PLANNED_AT_ONCE: Final = 16
"""Jobs whose first tick is computed before other calls have a turn: a new schedule takes some 0.2 ms."""


class JobRpcs(ScheduleRpcs):
    """The RPCs about jobs."""

    async def schedule_job(self, request: f.ScheduleJobRequest, *, timeout: float = 10) -> j.Job:
        """Makes a job, or replaces one."""
        (answer,) = await self._schedule_jobs([request])
        if isinstance(answer, AtfError):
            raise answer
        return await self._redaction.job(answer)

    async def schedule_jobs(self, request: f.ScheduleJobsRequest, *, timeout: float = 10) -> f.ScheduleJobsReply:
        """Makes or replaces many jobs, at most 1000; each succeeds or fails by itself. Where the store fails them all, the whole call fails and
        may be repeated.
        """
        check_count("requests", len(request.requests), MAX_REQUESTS)
        reply = f.ScheduleJobsReply()
        answers = await self._schedule_jobs(request.requests)
        if answers and all(isinstance(each, Unavailable) for each in answers):
            raise Unavailable(str(answers[0]))
        for answer in answers:
            result = reply.results.add()
            if isinstance(answer, AtfError):
                set_error(result.error, answer)
            else:
                result.job.CopyFrom(answer)
        await self._redaction.jobs(result.job for result in reply.results if result.HasField("job"))
        return reply

    async def _schedule_jobs(self, requests: Sequence[f.ScheduleJobRequest]) -> list[j.Job | AtfError]:
        await self._lambdas.load({lambda_of(each.job.task) for each in requests})
        now_us = await self._now_us()
        answers: dict[int, j.Job | AtfError] = {}
        asked: dict[int, tuple[NewJob, j.JobSpec]] = {}
        for place, request in enumerate(requests):
            try:
                signature(request)  # checks it
                asked[place] = new_job(request, self._lambdas, self._cap, now_us)
            except AtfError as error:
                answers[place] = error
            if place % _PLANNED_AT_ONCE == _PLANNED_AT_ONCE - 1:
                await asyncio.sleep(0)
        answers |= await self._bound_to_own(asked)
        asked = {place: each for place, each in asked.items() if place not in answers}
        made = await self._store_jobs([(requests[place], job) for place, (job, _) in asked.items()])
        before: list[int] = []
        for (place, (job, spec)), answer in zip(asked.items(), made, strict=True):
            if isinstance(answer, AtfError):
                answers[place] = answer
            elif answer.made is JobAnswer.TAKEN:
                answers[place] = _taken(job.name, "; overwrite = true replaces it")
            elif answer.made is JobAnswer.NEVER:
                answers[place] = _never(answer, spec)
            elif answer.made is JobAnswer.MADE:
                answers[place] = j.Job(
                    spec=spec,
                    generation=answer.generation,
                    created_at_us=answer.made_at_us,
                    next_tick_at_us=job.first_us or 0,
                )
            else:
                before.append(place)  # it may be paused, or have had ticks
        names = [asked[place][0].name for place in before]
        for place, name, record in zip(before, names, await self._store.get_jobs(names), strict=True):
            answers[place] = _job(record) if record is not None else _none(name)
        return [answers[place] for place in range(len(requests))]

    async def _bound_to_own(self, asked: dict[int, tuple[NewJob, j.JobSpec]]) -> dict[int, AtfError]:
        """Lets each job replace, in place, the one alone that has its name now. Of those whose lambda the caller may not schedule: why not, by place."""
        if caller().grant is None:
            return {}
        refusals: dict[int, AtfError] = {}
        records = await self._store.get_jobs([job.name for job, _ in asked.values()])
        for (place, (job, spec)), record in zip(list(asked.items()), records, strict=True):
            try:
                if record is not None:
                    permit_found(Verb.SCHEDULE, _lambda_of_job(record), partial(_taken, job.name))
                asked[place] = job._replace(may_replace=record.generation if record is not None else 0), spec
            except AtfError as error:
                refusals[place] = error
        return refusals

    async def _store_jobs(self, asked: Sequence[tuple[f.ScheduleJobRequest, NewJob]]) -> list[MadeJob | AtfError]:
        """Noted once for each who asks, and why: a client sends together what its program schedules at the same time."""
        signed = [signature(request) for request, _ in asked]
        async with AsyncExitStack() as stack:
            drafts = {
                each: await stack.enter_async_context(self._audit.write("schedule_job", request))
                for each, (request, _) in dict(zip(signed, asked, strict=True)).items()
            }
            made = await self._store.schedule_jobs([job for _, job in asked])
            for each, draft in drafts.items():
                mine = [own == each for own in signed]
                _tell(draft, list(compress(asked, mine)), list(compress(made, mine)))
        return made

    async def get_job(self, request: f.GetJobRequest, *, timeout: float = 10) -> j.Job:
        """A job's record."""
        job = _job(await self._job_record(request.name, Verb.READ))
        return await self._redaction.job(job, unredacted=request.unredacted)

    async def _job_record(self, name: str, verb: Verb) -> JobRecord:
        (record,) = await self._store.get_jobs([rules.check_job(name)], caller().seen())
        if record is None:
            raise _none(name)
        permit_found(verb, _lambda_of_job(record), partial(_none, name))
        return record

    async def list_jobs(self, request: f.ListJobsRequest, *, timeout: float = 10) -> f.ListJobsReply:
        """A page of jobs, partition by partition."""
        prefix = _check_prefix(request.prefix)
        partition, last = parse_token(opened("list_jobs", request.page_token), self._store.partitions)
        left = page_size(request.page_size)
        reply, who, looks = f.ListJobsReply(), caller(), 0
        while partition < self._store.partitions and left > 0 and looks < _MOST_LOOKS:
            names = await self._store.list_jobs(prefix, partition, last, min(left, _READ_TOGETHER))
            looks += len(names)
            for record in await self._store.get_jobs(names):
                if record is not None and reply.ByteSize() < _ANSWER_BYTES:
                    last = record.name
                    if who.may(Verb.READ, _lambda_of_job(record)):
                        reply.jobs.append(_job(record))
                        left -= 1
            if reply.ByteSize() >= _ANSWER_BYTES:
                break
            partition, last = (partition, names[-1]) if names else (partition + 1, "")
        await self._redaction.jobs(reply.jobs, unredacted=request.unredacted)
        if partition < self._store.partitions:
            reply.next_page_token = sealed("list_jobs", f"{partition}:{last}")
        return reply

    async def delete_job(self, request: f.DeleteJobRequest, *, timeout: float = 10) -> f.DeleteJobReply:
        """Deletes a job, and with it its tasks that have not started; it need not exist."""
        name = rules.check_job(request.name)
        mine, generations = await self._permitted_jobs(Verb.SCHEDULE, [name])
        if not mine:
            with suppress(NotFound):
                await self._job_record(name, Verb.SCHEDULE)  # raises where it is there and may be seen
            return f.DeleteJobReply(existed=False)
        async with self._audit.write("delete_job", request, detail=f"job {shown(name)}") as draft:
            (existed,) = await self._store.delete_jobs([name], generations)
            draft.changed = existed
        return f.DeleteJobReply(existed=existed)

    async def delete_jobs_by_prefix(
        self, request: f.DeleteJobsByPrefixRequest, *, timeout: float = 10
    ) -> f.DeleteJobsByPrefixReply:
        """Deletes the jobs whose names begin so."""
        if not request.prefix:
            raise InvalidArgument('prefix: give the beginning of the names, such as "shop/"; "*" deletes all jobs')
        begin = "" if request.prefix == "*" else _check_prefix(request.prefix)
        said, deleted = f"jobs whose names begin with {begin!r}" if begin else "all jobs", 0
        async with self._audit.write("delete_jobs_by_prefix", request, detail=said) as draft:
            for partition in range(self._store.partitions):
                for with_tasks in (False, True):  # also of a job that has ended ticks may wait
                    last = ""
                    while names := await self._store.list_jobs(
                        begin, partition, last, rules.MAX_BATCH, with_tasks=with_tasks
                    ):
                        last = names[-1]
                        mine, generations = await self._permitted_jobs(Verb.SCHEDULE, names)
                        deleted += sum(await self._store.delete_jobs(mine, generations))
                        draft.detail = f"{said}: {deleted}"
            draft.changed = deleted > 0
        return f.DeleteJobsByPrefixReply(deleted=deleted)

    async def _permitted_jobs(self, verb: Verb, names: Sequence[str]) -> tuple[Sequence[str], Mapping[str, int]]:
        """Those of some jobs to which the caller may do it, and their generations where it may not do it to all. Of one that has ended only its
        ticks are left, so nobody knows whose it was: they are for who may do it everywhere.
        """
        who = caller()
        if who.is_unbounded(verb):
            return names, {}
        everywhere, mine, generations = who.may_everywhere(verb), list[str](), dict[str, int]()
        seen = () if everywhere else who.seen()
        for name, record in zip(names, await self._store.get_jobs(names, seen), strict=True):
            if everywhere if record is None else who.may(verb, _lambda_of_job(record)):
                mine.append(name)
                generations |= {name: record.generation} if record is not None else {}
        return mine, generations

    async def pause_job(self, request: f.PauseJobRequest, *, timeout: float = 10) -> j.Job:
        """Stops a job's ticks, those among them that wait."""
        return await self._change_job_pause("pause_job", request, self._store.pause_job)

    async def resume_job(self, request: f.ResumeJobRequest, *, timeout: float = 10) -> j.Job:
        """Lets a job's ticks go on, those among them that wait."""
        return await self._change_job_pause("resume_job", request, self._store.resume_job)

    async def _change_job_pause(
        self,
        what: str,
        request: f.PauseJobRequest | f.ResumeJobRequest,
        verb: Callable[[str, int | None], Awaitable[PausedJob]],
    ) -> j.Job:
        name, generation = rules.check_job(request.name), None
        if not caller().is_unbounded(Verb.OPERATE):
            generation = (await self._job_record(name, Verb.OPERATE)).generation
        async with self._audit.write(what, request, detail=f"job {name}") as draft:
            answer = await verb(name, generation)
            if not answer.found:
                raise _none(name, answer.tasks)
            job = _job(await self._job_record(name, Verb.OPERATE))
            draft.lambda_name = lambda_of(job.spec.task)
        return await self._redaction.job(job)

    async def run_job_now(self, request: f.RunJobNowRequest, *, timeout: float = 10) -> f.ScheduleReply:
        """Makes a task of a job beside its ticks."""
        record = await self._job_record(request.name, Verb.SCHEDULE)
        job, tick = _job(record), t.TickInfo(job=request.name, at_us=await self._store.time_us())
        name, said = lambda_of(job.spec.task), f"job {request.name}"
        async with self._audit.write("run_job_now", request, name, detail=said) as draft:
            made = await self._schedule_one(
                f.ScheduleRequest(id=request.task_id, spec=job.spec.task),
                tick,
                None if caller().grant is None else record.generation,
            )
            if made is None:
                raise _none(request.name)
            draft.tasks, draft.changed = [made.id], not made.existed
        return made

    async def preview_schedule(
        self, request: f.PreviewScheduleRequest, *, timeout: float = 10
    ) -> f.PreviewScheduleReply:
        """The next ticks of a job that is not made."""
        if not 0 <= request.count <= MAX_PREVIEW:
            raise InvalidArgument(f"count {request.count}: use 1 to {MAX_PREVIEW}; 0 means {DEFAULT_PREVIEW}")
        if not 0 <= request.from_at_us <= LATEST_US:
            raise InvalidArgument(
                f"from_at_us {request.from_at_us}: microseconds since 1970, before the year 10000; 0 means now"
            )
        count = request.count or DEFAULT_PREVIEW
        spec = j.JobSpec()
        spec.CopyFrom(request.job)
        spec.base_at_us = request.from_at_us or await self._store.time_us()
        ticks = await asyncio.to_thread(lambda: list(islice(plan_of(spec), count)))  # noqa: TID251  pure, and may take long
        return f.PreviewScheduleReply(ticks_at_us=ticks)


def parse_token(token: str, partitions: int) -> tuple[int, str]:
    """The partition in which a page of jobs begins, and the name behind which."""
    if not token:
        return 0, ""
    partition, colon, last = token.partition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", partition) or int(partition) >= partitions:
        raise bad_page_token(token)
    return int(partition), last


def _check_prefix(prefix: str) -> str:
    if len(prefix) > rules.MAX_JOB_CHARS + 65:
        raise InvalidArgument(f"prefix {shown(prefix)!r}: longer than any name")
    return prefix


def _job(record: JobRecord) -> j.Job:
    # One of an import that can't be read does not tick, and must be seen to be deleted.
    spec = stored(j.JobSpec, record.spec) or j.JobSpec(name=record.name)
    spec.base_at_us = record.base_us  # of one that went on from where another stood it is the other's
    return j.Job(
        spec=spec,
        generation=record.generation,
        created_at_us=record.made_at_us,
        next_tick_at_us=record.next_us or 0,
        ticks=record.ticks,
        last_tick_at_us=record.last_us or 0,
        last_task_id=record.last_task,
        last_status=record.last_outcome or None,  # by name
        skipped=record.passed_over,
        skipped_why=record.why,
        paused=record.paused,
    )


def _never(made: MadeJob, spec: j.JobSpec) -> j.Job | AtfError:
    """Of the code a job that is past its last tick has ended: executors of that code start all the same."""
    if spec.code and not made.generation:
        return j.Job(spec=spec)
    try:
        plan_of(spec, strict=True)
    except InvalidArgument as error:
        return error
    raise AssertionError("it has a tick to come")


def _tell(
    draft: AuditDraft, asked: Sequence[tuple[f.ScheduleJobRequest, NewJob]], answers: Sequence[MadeJob | AtfError]
) -> None:
    """What the audit log says of jobs that were made or replaced, or may have been."""
    came_to = {JobAnswer.MADE: "made", JobAnswer.REPLACED: "replaced"}
    outcomes = [
        came_to.get(each.made) if isinstance(each, MadeJob) else None if isinstance(each, CHANGED_NOTHING) else "failed"
        for each in answers
    ]
    done = list(compress(asked, outcomes))
    counts = Counter(filter(None, outcomes))
    draft.changed = bool(done)
    draft.lambda_name = some_of(lambda_of(request.job.task) for request, _ in done)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    draft.detail = f"{said}: {some_of(job.name for _, job in done)}"


def _lambda_of_job(record: JobRecord) -> str:
    """Whose tasks a job makes; "" where somebody has damaged it."""
    spec = stored(j.JobSpec, record.spec)
    return lambda_of(spec.task) if spec is not None else ""


def _taken(name: str, mend: str = "") -> AlreadyExists:
    return AlreadyExists(
        f"job {name!r} exists{mend or ', and is not of a lambda that you may schedule: take another name'}"
    )


def _none(name: str, tasks: int = 0) -> NotFound:
    """`tasks`: of an import, which carries the live ticks of a job that has ended, and not that."""
    if not tasks:
        return NotFound(f"there is no job {shown(name)!r}, or it has ended")
    return NotFound(
        f"there is no job {shown(name)!r}, but {tasks} of its tasks are live: deleting it cancels those that have not started"
    )
