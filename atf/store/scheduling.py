"""Adds tasks to the store: schedules them, and restores them from an export."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from atf.calls.coalescing import again
from atf.durability import Durability
from atf.errors import AtfError
from atf.store.servers.sockets import Arg

from . import keys, library
from .calls import by_partition
from .claim_pause import PauseCause
from .partitions import Partitions
from .shared_calls import SharedCalls
from .values.tasks import NewTask, RestoredTask, Scheduled

_NEVER: Final = -1
"""The next instant of a task that is restored as a cancelled one."""


class ScheduleVerbs(Partitions):
    """The verbs of Store that make tasks."""

    @cached_property
    def _schedule_calls(self) -> SharedCalls[NewTask, Scheduled | AtfError]:
        def size(task: NewTask) -> int:
            return len(task.spec)

        return SharedCalls(self._schedule, size=size, kind=self._demand, runtime=self._runtime, name="schedule")

    async def schedule(self, items: Sequence[NewTask]) -> list[Scheduled]:
        """(no record) → NEW. Idempotent by id; see Scheduled.conflict for an id taken by another request.

        Raises:
            Unavailable: a partition is away, or did not come to be as durable as asked for; some items may be stored.
            FailedPrecondition: the store can't be as durable as asked for; the items that ask for it are not stored.
        """
        answers = await self.schedule_each(items)
        for each in answers:
            if isinstance(each, AtfError):
                raise each
        return [each for each in answers if isinstance(each, Scheduled)]

    async def schedule_each(self, items: Sequence[NewTask]) -> list[Scheduled | AtfError]:
        """Like `schedule`; what went wrong is answered item by item, so that a partition that is away does not concern the others."""
        calls = self._schedule_calls
        return await by_partition(items, lambda each: each.partition, calls.ask, calls.size, kind=calls.kind)

    async def _schedule(self, partition: int, batch: list[NewTask]) -> list[Scheduled | AtfError]:
        args: list[Arg] = []
        ids = [f"{partition}-{each.id}" for each in batch]
        for task_id, each in zip(ids, batch, strict=True):
            limits = library.limits(each.max_attempts, each.max_losses, each.retention_us)
            at = "" if each.at_us is None else each.at_us
            queue = keys.queue(each.lambda_name, each.priority)
            args += (task_id, queue, each.spec, each.digest, at, each.delay_us, limits)
            args += (
                _ordering(each) if each.ordering_key else "",
                each.concurrency,
                each.unique + "j" * each.joins,
                each.affinity,
            )
        demand = self._demand(batch[0])
        try:
            reply = await self._call("schedule", partition, args, demand=demand)
        except AtfError as error:
            return [again(error) for _ in batch]
        met = self._link.met(keys.record(partition), demand)
        return [
            Scheduled(first.decode() or task_id, what in {1, 2}, what == 2, int(at), met, left_out=what == 3)
            for task_id, (what, at, first) in zip(ids, reply, strict=True)
        ]

    def _demand(self, task: NewTask) -> Durability:
        floor = self.settings.floor
        return task.durability if task.durability > floor else floor  # noqa: FURB136  a third of the time

    async def restore(self, tasks: Sequence[RestoredTask]) -> list[int]:
        """(no record) → NEW, RETRIABLE_FAILURE, CANCELLED, with what the task had been through; per task 1, or 0 where its id is taken.

        (no record) → FATAL_FAILURE where an ordering key has stopped at the task: it stops again, unless it has tasks by now.
        """

        async def call(partition: int, batch: list[RestoredTask]) -> list[int]:
            args: list[Arg] = []
            for each in batch:
                args += (f"{partition}-{each.id}", keys.queue(each.lambda_name, each.priority), each.spec, each.digest)
                next_at_us = -each.stopped_at_us or (_NEVER if each.cancelled else each.next_at_us)
                args += (each.scheduled_at_us, next_at_us, each.limits, _ordering(each))
                args += (each.attempts, each.losses, each.runs, each.fence, each.error, each.concurrency)
                args += (each.lapses, int(each.alone), _of_job(each))
                args += (keys.ordering(each.lambda_name, each.unique_key) if each.unique_key else "",)
            return list(await self._call("restore", partition, args))

        def partition(each: RestoredTask) -> int:
            return self.partition_for(routing_key(each))

        return await by_partition(tasks, partition, call, size=lambda each: len(each.spec))

    async def pause_claims(self) -> int:
        """Has no claims given for one heartbeat timeout; returns the instant at which the last partition gives some again.

        For a store that tasks are brought back to: executors may still hold claims of them that it knows nothing of.
        """
        timeout = self._lease_us
        return max([await self._pause_claims(each, timeout, PauseCause.IMPORT) for each in range(self.partitions)])


def routing_key(task: RestoredTask) -> str:
    """What decides where a task lives."""
    if task.of_job:
        return task.of_job.job
    return task.ordering_key or keys.key_of(task.concurrency) or task.unique_key or task.id


def _ordering(task: NewTask | RestoredTask) -> str:
    return keys.ordering(task.lambda_name, task.ordering_key) if task.ordering_key else ""


def _of_job(task: RestoredTask) -> str:
    """The task field `w` of one of a job."""
    if task.of_job is None:
        return ""
    return (keys.BESIDE_OF if task.of_job.beside else keys.TICK_OF) + task.of_job.job
