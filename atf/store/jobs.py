"""Makes, reads, pauses, ticks and deletes recurring jobs in the store.

When a job ticks, and what a tick is, is for the caller to say; the store sees that it happens once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from atf.errors import AtfError
from atf.rpc.stored_spec import packed
from atf.store.servers.server_info import text
from atf.store.servers.sockets import Arg

from . import keys, library
from .calls import by_partition
from .partitions import Partitions
from .values.jobs import DueJob, JobAnswer, JobRecord, MadeJob, NewJob, PausedJob, Tick
from .values.tasks import NewTask, Scheduled

NO_GENERATIONS: Final[Mapping[str, int]] = MappingProxyType({})
_READ_BATCH = 64
"""Jobs read by one call: each may hold a payload."""
_DUE_FIELDS = 8
"""Of each due job that a pass tells of."""
_MORE = 2
"""The answer of a job that has more tasks than one call deals with."""
_TAKEN, _NO_JOB = 2, 3
"""Answers of run_job_now."""


class JobVerbs(Partitions):
    """The verbs of Store about jobs."""

    def job_partition(self, name: str) -> int:
        """Where a job lies, and the tasks that its ticks make."""
        return self.partition_for(name)

    async def schedule_jobs(self, jobs: Sequence[NewJob]) -> list[MadeJob | AtfError]:
        """Makes or replaces jobs. What went wrong is answered job by job: a partition that is away, or full, concerns no other's."""

        async def ask(partition: int, batch: Sequence[NewJob]) -> list[MadeJob | AtfError]:
            args: list[Arg] = []
            for job in batch:
                first: Arg = "" if job.first_us is None else job.first_us
                args += (job.name, job.request_id, int(job.replace), job.spec, job.overlap, first)
                args += (job.ticks, int(job.paused), job.base_us, job.rhythm, _bound(job.may_replace), job.lambda_name)
            try:
                reply = await self._call("schedule_jobs", partition, args, demand=self.settings.floor)
                return [MadeJob(JobAnswer(what), int(generation), int(made_at)) for what, generation, made_at in reply]
            except AtfError as error:
                return [error] * len(batch)

        async def call(partition: int, batch: list[NewJob]) -> list[MadeJob | AtfError]:
            answers = await ask(partition, batch)
            for place, job in enumerate(batch):
                while isinstance(each := answers[place], MadeJob) and each.made is JobAnswer.NOT_YET:
                    (answers[place],) = await ask(partition, [job])
            return answers

        return await by_partition(jobs, lambda job: self.job_partition(job.name), call, size=lambda job: len(job.spec))

    async def get_jobs(self, names: Sequence[str], within: Sequence[str] = ()) -> list[JobRecord | None]:
        """Jobs by their names; None for one that does not exist.

        Args:
            names: of which.
            within: namespaces (with their slashes) and lambdas: a job of another one does not exist for this call, and takes as long. Empty: of
                all.
        """
        bound = " ".join(within)

        async def call(partition: int, batch: list[str]) -> list[JobRecord | None]:
            return list(map(_record, batch, await self._call("get_jobs", partition, [bound, *batch])))

        return await by_partition(names, self.job_partition, call, most=_READ_BATCH)

    async def list_jobs(
        self, prefix: str, partition: int, last: str, size: int, *, with_tasks: bool = False
    ) -> list[str]:
        """Names of jobs that have not ended, of one partition, in their order.

        Args:
            prefix: of the names.
            partition: whose.
            last: the name seen last; "": from the start.
            size: names at most.
            with_tasks: of jobs instead that have live tasks which a deletion would cancel, whether they have ended or not.
        """
        args: list[Arg] = [prefix, last, size, int(with_tasks)]
        return [text(name) for name in await self._call("list_jobs", partition, args)]

    async def delete_jobs(self, names: Sequence[str], generations: Mapping[str, int] = NO_GENERATIONS) -> list[bool]:
        """Deletes jobs, and cancels their tasks that have not started; those that run do not run again. Whether each existed.

        A job with many tasks is deleted when the last of them is cancelled: where this fails, call it again.

        Args:
            names: of the jobs.
            generations: by name, of those of which one of another generation does not exist for this call.
        """

        async def call(partition: int, batch: list[str]) -> list[bool]:
            deleted = dict.fromkeys(batch, False)
            left = batch
            while left:
                args: list[Arg] = [each for name in left for each in (name, _bound(generations.get(name)))]
                replies = dict(zip(left, await self._call("delete_jobs", partition, args), strict=True))
                deleted.update({name: True for name, what in replies.items() if what})
                left = [name for name, what in replies.items() if what == _MORE]
            return [deleted[name] for name in batch]

        return await by_partition(names, self.job_partition, call)

    async def pause_job(self, name: str, generation: int | None = None) -> PausedJob:
        """Stops the ticks of a job, those among them that wait as tasks.

        One with many such tasks takes several calls of the store: where this fails, call it again.

        Args:
            name: of the job.
            generation: a job of another one does not exist for this call; None: whichever it has.
        """
        return await self._set_job_paused(name, generation, paused=True)

    async def resume_job(self, name: str, generation: int | None = None) -> PausedJob:
        """Lets the ticks of a job go on. As `pause_job` otherwise."""
        return await self._set_job_paused(name, generation, paused=False)

    async def _set_job_paused(self, name: str, generation: int | None, *, paused: bool) -> PausedJob:
        args: list[Arg] = [name, int(paused), _bound(generation)]
        while True:
            what, tasks = await self._call("pause_job", self.job_partition(name), args)
            if what != _MORE:
                return PausedJob(what == 1, tasks)

    async def run_job_now(self, name: str, task: NewTask, generation: int | None = None) -> Scheduled | None:
        """(no record) → NEW: a task of a job beside its ticks, due now, in the job's partition; None: there is no such job, or it is of
        another generation.

        Idempotent by id, as `schedule`.
        """
        partition = self.job_partition(name)
        task_id = f"{partition}-{task.id}"
        limits = library.limits(task.max_attempts, task.max_losses, task.retention_us)
        queue = keys.queue(task.lambda_name, task.priority)
        floor = self.settings.floor
        args: list[Arg] = [
            name,
            task_id,
            queue,
            packed(queue, task.spec),
            task.digest,
            limits,
            task.affinity,
            task.labels,
            task.entries,
            _bound(generation),
        ]
        what, at = await self._call("run_job_now", partition, args, demand=floor)
        if what == _NO_JOB:
            return None
        return Scheduled(task_id, what > 0, what == _TAKEN, int(at), self._link.met(keys.record(partition), floor))

    async def tick(self, partition: int, ticks: Sequence[Tick]) -> list[bool]:
        """Deals with ticks that are due: each becomes a task or is passed over, once, whoever else tries to.

        Returns:
            Per tick whether this call did it.
        """

        async def call(partition: int, batch: list[Tick]) -> list[bool]:
            args: list[Arg] = []
            for each in batch:
                task, following = each.task, "" if each.next_us is None else each.next_us
                args += (each.name, each.generation, each.due_us, following)
                args += (each.passed_over, each.why, each.retention_us)
                if task is None:
                    args += [""] * 8
                else:
                    assert task.at_us is not None
                    args += (each.tick_us, task.at_us, f"{partition}-{task.id}")
                    limits = library.limits(task.max_attempts, task.max_losses, task.retention_us)
                    queue = keys.queue(task.lambda_name, task.priority)
                    args += (queue, packed(queue, task.spec), limits, task.labels, task.entries)
            return [done == 1 for done in await self._call("tick", partition, args)]

        def size(tick: Tick) -> int:
            return len(tick.task.spec) if tick.task else 0

        return await by_partition(ticks, lambda _: partition, call, size)


def due_jobs(reply: Sequence[Any]) -> list[DueJob]:
    """What an enqueue pass tells of jobs."""
    found = []
    for at in range(0, len(reply), _DUE_FIELDS):
        name, generation, due, ticks, running, ended, base, spec = reply[at : at + _DUE_FIELDS]
        numbers = int(generation), int(due), int(ticks)
        found.append(DueJob(text(name), *numbers, text(running), int(ended or 0), int(base), bytes(spec)))
    return found


def _record(name: str, reply: Sequence[Any]) -> JobRecord | None:
    if not reply:
        return None
    generation, made, spec, following, ticks, paused, last, task, out, skips, why, *more = reply
    overlap, base, rhythm, running = more
    return JobRecord(
        name=name,
        generation=int(generation),
        made_at_us=int(made),
        spec=bytes(spec),
        next_us=int(following) if following else None,
        ticks=int(ticks),
        paused=bool(paused),
        last_us=int(last) if last else None,
        last_task=text(task),
        last_outcome=text(out),
        passed_over=int(skips or 0),
        why=text(why),
        overlap=text(overlap),
        base_us=int(base),
        rhythm=text(rhythm),
        running=text(running),
    )


def _bound(generation: int | None) -> Arg:
    return "" if generation is None else generation
