"""Adds tasks to the store: schedules them, and restores them from an export."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from atf.calls.coalescing import again
from atf.durability import Durability
from atf.errors import AtfError
from atf.rpc.stored_spec import packed
from atf.store.servers.sockets import Arg

from . import keys, library
from .calls import SharedCalls, by_partition
from .claim_pause import PauseCause
from .partitions import Partitions
from .values.tasks import NewTask, RestoredTask, Scheduled

_NEVER: Final = -1
"""The next instant of a task that is restored as a cancelled one."""


class ScheduleVerbs(Partitions):
    """The verbs of Store that make tasks."""

    @cached_property
    def _schedule_calls(self) -> SharedCalls[NewTask, Scheduled | AtfError]:
        def size(task: NewTask) -> int:
            return len(task.spec)

        alone = self._link.blocks
        return SharedCalls(
            self._schedule, size=size, kind=self._demand, runtime=self._runtime, name="schedule", alone=alone
        )

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
            at = "" if each.at_us is None else each.at_us
            queue = keys.queue(each.lambda_name, each.priority)
            more = _more_fields(each)
            args += (task_id, queue, packed(queue, each.spec), each.digest, at, each.delay_us, len(more), *more)
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
                next_at_us = -each.stopped_at_us or (_NEVER if each.cancelled else each.next_at_us)
                queue = keys.queue(each.lambda_name, each.priority)
                fields = _restored_fields(each, queue)
                args += (f"{partition}-{each.id}", queue, next_at_us)
                args += (_of_job(each), len(fields), *fields)
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


def _more_fields(task: NewTask) -> list[Arg]:
    """The fields that few tasks have, each behind its name. Of a unique key the window and the policy follow, and j where it may only join."""
    fields: list[Arg] = []
    if limits := library.limits(task.max_attempts, task.max_losses, task.retention_us):
        fields += ("lim", limits)
    if task.ordering_key:
        fields += ("k", keys.ordering(task.lambda_name, task.ordering_key))
    if task.concurrency:
        fields += ("kc", task.concurrency)
    if task.unique:
        fields += ("uk", task.unique + "j" * task.joins)
    if task.affinity:
        fields += ("af", task.affinity)
    if task.labels:
        fields += ("lb", task.labels)
    if task.entries:
        fields += ("ix", task.entries)
    return fields


def _restored_fields(task: RestoredTask, queue: str) -> list[Arg]:
    """The fields of a record that comes back, each behind its name."""
    fields: list[Arg] = [
        "spec",
        packed(queue, task.spec),
        "d",
        task.digest,
        "at",
        task.scheduled_at_us,
        "a",
        task.attempts,
    ]
    fields += ("l", task.losses, "c", f"{task.fence} {task.runs}")
    more = {
        "lim": task.limits,
        "k": keys.ordering(task.lambda_name, task.ordering_key) if task.ordering_key else "",
        "err": task.error,
        "kc": task.concurrency,
        "y": task.lapses,
        "z": "1" if task.alone else "",
        "uk": keys.ordering(task.lambda_name, task.unique_key) if task.unique_key else "",
        "lb": task.labels,
        "ix": task.entries,
    }
    for name, value in more.items():
        if value:
            fields += (name, value)
    return fields


def _of_job(task: RestoredTask) -> str:
    """The task field `w` of one of a job."""
    if task.of_job is None:
        return ""
    return (keys.BESIDE_OF if task.of_job.beside else keys.TICK_OF) + task.of_job.job
