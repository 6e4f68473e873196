"""The registry as callers ask for it: lambdas are registered, listed, set otherwise than their code says, and deleted.

A frontend that read the registry less than a second ago may still accept a task for a lambda that is just being deleted. That task waits until
the lambda is registered again, and `explain` says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from atf.auth.caller import ANYBODY, acting_for, caller, permit
from atf.auth.grants import Verb
from atf.errors import FailedPrecondition, InvalidArgument, Unavailable
from atf.log import get_logger
from atf.rpc import frontend_pb2 as f
from atf.sdk.isolation import chokes
from atf.store.claim_pause import ClaimPause
from atf.store.status import NO_TASKS
from atf.store.values.explained import QueueDepth
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.lists import TaskQuery
from atf.task import DEFAULT_ENQUEUE_TIMEOUT_US, DEFAULT_QUEUE_LIMIT, MAX_BATCH, Status, check_lambda

from .audit import check_who, some_of
from .capacity import CapacityRpcs
from .jobs import JobRpcs
from .lambdas import KnownLambda, spec_of
from .settings import ALL, admission_settings, in_force, overridden, said
from .status import is_served
from .validate import (
    MAX_REGISTERED_AT_ONCE,
    bad_page_token,
    check_count,
    check_lambda_spec,
    checked_lambda,
    known_fields,
    lambda_of,
    page_size,
    shown,
)
from .view import ANSWER_BYTES

_CANCELLED_AT_ONCE: Final = 4_096
"""Tasks that one call cancels at least, where so many wait."""
_WAITING: Final = (Status.NEW, Status.RETRIABLE_FAILURE, Status.ENQUEUED)

_log = get_logger()


class LambdaRpcs(JobRpcs, CapacityRpcs):
    """The calls on the registry."""

    async def register_lambdas(
        self, request: f.RegisterLambdasRequest, *, timeout: float = 10
    ) -> f.RegisterLambdasReply:
        """Makes lambdas known, all or none of them; what is known already is brought up to date."""
        check_count("lambdas", len(request.lambdas), MAX_REGISTERED_AT_ONCE)
        for spec in request.lambdas:
            check_lambda_spec(spec)
            permit(Verb.WORK, spec.name)
        names = some_of(spec.name for spec in request.lambdas)
        async with self._audit.write("register_lambdas", request, names) as draft:
            changed = await self._store.register_lambdas([_record(spec) for spec in request.lambdas])
            draft.changed, draft.detail = (
                changed > 0,
                f"{changed} of {len(request.lambdas)} were new or other than before",
            )
        await self._lambdas.refresh()
        if forgotten := [spec.name for spec in request.lambdas if self._lambdas.find(spec.name) is None]:
            # It has come back with less than it had acknowledged; whoever registers asks again, and goes on only then.
            raise Unavailable(
                f"the task store has forgotten what was just registered ({forgotten[0]}): it was restarted. Try again"
            )
        if changed:
            self._warn_of_chokes(spec.name for spec in request.lambdas)
        return f.RegisterLambdasReply(warnings=await self._pools.warnings({spec.name for spec in request.lambdas}))

    def _warn_of_chokes(self, names: Iterable[str]) -> None:
        """What an operator has set may not go with what new code says; that must not keep an executor from starting."""
        for held in (self._lambdas.get(name).in_force for name in names):
            if chokes(held):
                _log.warning(
                    "a burst below the rate bounds a lambda in its place: atf lambda set NAME burst=…, or none",
                    name=held.name,
                    burst=held.burst,
                    rate=held.rate,
                )

    async def list_lambdas(self, request: f.ListLambdasRequest, *, timeout: float = 10) -> f.ListLambdasReply:
        """A page of lambdas with their counts and queues. It is shorter than asked for if their specs are large."""
        size = page_size(request.page_size, default=MAX_BATCH)
        if token := request.page_token:
            try:
                check_lambda(shown(token))
            except InvalidArgument:
                raise bad_page_token(token) from None
        name = lambda_of(request)
        await self._lambdas.refresh()
        if name:
            permit(Verb.READ, checked_lambda(request))
            chosen: Sequence[KnownLambda] = [self._lambdas.get(name)]
            more = False
        else:
            who = caller()
            every = [each for each in self._lambdas.all() if who.may(Verb.READ, each.record.name)]
            chosen, more = _page(every, request.page_token, size)
        pause = ClaimPause.longest_of(await self._store.claim_pauses())
        return f.ListLambdasReply(
            lambdas=await self._infos(chosen, alone=bool(name)),
            next_page_token=chosen[-1].record.name if more else "",
            claims_paused=pause.sentence if pause else "",
        )

    async def _infos(self, chosen: Sequence[KnownLambda], *, alone: bool) -> list[f.LambdaInfo]:
        """Lambdas with their counts and queues."""
        counts = await self._counts(chosen, alone=alone)
        queues: dict[str, list[QueueDepth]] = defaultdict(list)
        for depth in await self._store.queues():
            queues[depth.lambda_name].append(depth)
        served = await self._store.served()
        return [
            _info(known, counts[known.record.name], queues[known.record.name], is_served(known, served))
            for known in chosen
        ]

    async def _counts(self, chosen: Sequence[KnownLambda], *, alone: bool) -> Mapping[str, Mapping[Status, int]]:
        """Of one lambda as they are, of several as they were a moment ago: many may look at these."""
        if alone:
            return await self._store.counts_of([known.record.name for known in chosen])
        standing = (await self._standing()).whole()
        return {known.record.name: standing.get(known.record.name, NO_TASKS).counts for known in chosen}

    async def set_lambda(self, request: f.SetLambdaRequest, *, timeout: float = 10) -> f.LambdaInfo:
        """Sets what goes before what a lambda's code says."""
        name = checked_lambda(request)
        permit(Verb.OPERATE, name)
        await self._lambdas.known(name)

        def change(record: LambdaRecord) -> str:
            return overridden(spec_of(record), record.overrides, request.set, request.unset)

        if {"pool", ALL} & {*request.set, *request.unset}:
            await self._check_move(name, change)
        said = [f"{each}={value}" for each, value in sorted(request.set.items())]
        said += [f"unset {each}" for each in request.unset]
        async with self._audit.write("set_lambda", request, name, detail=", ".join(said)):
            await self._store.set_lambda(name, change)
        await self._lambdas.refresh()
        (info,) = await self._infos([self._lambdas.get(name)], alone=True)
        return info

    async def _check_move(self, name: str, change: Callable[[LambdaRecord], str]) -> None:
        """Whether a lambda may go to the pool that this change gives it."""
        await self._lambdas.refresh()
        known = self._lambdas.get(name)
        pool = in_force(known.spec, change(known.record)).pool
        if pool != known.in_force.pool:
            caller().permit_pool(pool)
            await self._pools.check_known(pool)
            await self._check_may_leave(name, known.in_force.pool)

    async def delete_lambda(self, request: f.DeleteLambdaRequest, *, timeout: float = 10) -> f.DeleteLambdaReply:
        """Deletes a lambda that nobody runs, that has no unfinished task, and that no job names; or cancels some of its tasks that wait."""
        name = checked_lambda(request)
        permit(Verb.OPERATE, name)
        check_who(request)
        await self._lambdas.refresh()
        known = self._lambdas.get(name)
        await self._check_removable(known)
        waiting = await self._count_waiting(name)
        if waiting and not request.cancel_waiting:
            raise FailedPrecondition(
                f"{waiting} tasks of {name} wait: atf lambda rm {name} --cancel-waiting cancels them first"
            )
        if request.dry_run:
            return f.DeleteLambdaReply(waiting=waiting)
        if waiting:
            async with self._audit.write("delete_lambda", request, name, detail="its waiting tasks first") as draft:
                cancelled = await self._cancel_waiting(name)
                draft.detail, draft.changed = f"{cancelled} waiting tasks cancelled first", cancelled > 0
            return f.DeleteLambdaReply(waiting=waiting, cancelled=cancelled)
        async with self._audit.write("delete_lambda", request, name):
            await self._store.delete_lambda(name)
        await self._lambdas.refresh()
        return f.DeleteLambdaReply(deleted=True)

    async def _check_removable(self, known: KnownLambda) -> None:
        name = known.record.name
        if is_served(known, await self._store.served()):
            raise FailedPrecondition(
                f"live workers run {name}, or some of its pool do not say what they run: deploy code without it, and wait until the"
                " last executor that has it was gone for two minutes"
            )
        await self._check_may_leave(name, known.in_force.pool)
        request = f.ListJobsRequest(page_size=MAX_BATCH, unredacted=True)
        while True:
            with acting_for(ANYBODY):  # a job of a lambda that goes is in the way, whoever may see it
                page = await self.list_jobs(request)
            for job in page.jobs:
                if lambda_of(job.spec.task) == name:
                    raise FailedPrecondition(
                        f"the job {job.spec.name} makes tasks of {name}: atf job rm {job.spec.name} deletes it"
                    )
            request.page_token = page.next_page_token
            if not request.page_token:
                return

    async def _count_waiting(self, name: str) -> int:
        standing = await self._store.get_status([name], 0)
        if standing.away:
            raise Unavailable("a partition of the task store can't be reached: nobody knows which tasks wait there")
        found = standing.lambdas.get(name, NO_TASKS)
        if found.running:
            raise FailedPrecondition(f"{found.running} tasks of {name} run: wait until they have ended")
        return found.waiting + found.later

    async def _cancel_waiting(self, name: str) -> int:
        cancelled, query, behind = 0, TaskQuery(name, statuses=_WAITING, oldest_first=True), None
        while cancelled < _CANCELLED_AT_ONCE:
            page = await self._store.list_tasks(query, MAX_BATCH, behind)
            results = await self._store.cancel_tasks([each.id for each in page.tasks], [name]) if page.tasks else []
            cancelled += sum(each.cancelled for each in results)
            behind = page.next
            if behind is None:
                break
        return cancelled


def _page(every: Sequence[KnownLambda], token: str, size: int) -> tuple[Sequence[KnownLambda], bool]:
    """The lambdas after the name that is the token, as many as one answer holds; and whether there are more."""
    first = last = bisect_right(every, token, key=lambda each: each.record.name)
    taken = 0
    while last < len(every) and last - first < size and taken < ANSWER_BYTES:
        taken += 2 * len(every[last].record.spec)  # it comes twice: as the code says, and in force
        last += 1
    return every[first:last], last < len(every)


def _record(spec: f.LambdaSpec) -> LambdaRecord:
    return LambdaRecord(
        name=spec.name,
        spec=known_fields(spec).SerializeToString(deterministic=True),
        queue_limit=spec.queue_limit or DEFAULT_QUEUE_LIMIT,
        enqueue_timeout_us=spec.enqueue_timeout_us or DEFAULT_ENQUEUE_TIMEOUT_US,
        paused=False,  # the store leaves it as it stands
        settings=" ".join(f"{name}={value}" for name, value in sorted(admission_settings(spec).items())),
    )


def _info(known: KnownLambda, counts: Mapping[Status, int], queues: Sequence[QueueDepth], served: bool) -> f.LambdaInfo:
    limit = known.record.queue_limit
    return f.LambdaInfo(
        spec=known.spec,
        overrides=said(known.record.overrides),
        in_force=known.in_force,
        paused=known.record.paused,
        served=served,
        counts={status.name: count for status, count in counts.items()},
        queues=[
            f.QueueInfo(name=each.name, partition=each.partition, priority=each.priority, depth=each.depth, limit=limit)
            for each in queues
        ],
    )
