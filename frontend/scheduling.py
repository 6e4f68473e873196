"""Checks, completes and stores what callers schedule. Concurrent calls of a few tasks each share calls of the store (store/calls.py)."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import repeat
from typing import Final, cast

from atf import task as rules
from atf.auth.caller import permit
from atf.auth.grants import Verb
from atf.errors import AlreadyExists, AtfError, InvalidArgument, TooManyPending
from atf.log import get_logger
from atf.metrics.metrics import OTHER
from atf.metrics.table import TASKS_SCHEDULED
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.stored_spec import front
from atf.runtime import new_id
from atf.sdk.sealed import comparable, is_sealed
from atf.store import keys
from atf.store.values.tasks import NewTask, Scheduled

from .parts import FrontendParts
from .pending import Admission, too_many
from .search import entries_of
from .validate import (
    asked_durability,
    check_count,
    check_spec,
    check_when,
    filled_in,
    known_fields,
    lambda_of,
    shown,
    spec_lambdas,
)
from .view import set_error

MAX_REQUESTS: Final = 1_000
"""Of one ScheduleMany."""
_DIGEST_BYTES: Final = 8

_log = get_logger()


class ScheduleRpcs(FrontendParts):
    """Schedule and ScheduleMany."""

    async def schedule(self, request: f.ScheduleRequest, *, timeout: float = 10) -> f.ScheduleReply:
        """Stores a task, in a call of the store that it may share with others."""
        try:
            reply = await self._schedule_one(request, None)
        except AtfError as error:
            self._count(lambda_of(request.spec), _refusal(error))
            raise
        assert reply is not None
        self._count(lambda_of(request.spec), "existed" if reply.existed else "accepted")
        return reply

    def _count(self, name: str, result: str, count: int = 1) -> None:
        """Counts tasks that were asked for. Names that nobody has registered are one."""
        label = name if self._lambdas.knows(name) else OTHER
        self._store.metrics.counter(TASKS_SCHEDULED, label, result).inc(count)

    async def _schedule_one(
        self, request: f.ScheduleRequest, tick: t.TickInfo | None, generation: int | None = None
    ) -> f.ScheduleReply | None:
        """One task, perhaps of a job, of this generation; None: there is none any more."""
        await self._lambdas.load([lambda_of(request.spec)])
        task = self._new_task(request, tick)
        known = self._lambdas.get(task.lambda_name)
        entry = await self._pending.enter(known, [task.stored_id])
        for refusal in entry.refusals.values():
            if not task.unique:
                raise refusal
            task = task._replace(joins=True)
        scheduled: Scheduled | None = None
        failed = True
        try:
            if tick is None:
                (scheduled,) = await self._store.schedule([task])
            else:
                scheduled = await self._store.run_job_now(tick.job, task, generation)
            failed = False
        finally:
            entry.ended(int(failed or (scheduled is not None and scheduled.new)))
        if scheduled is None:
            return None
        if scheduled.left_out:
            raise too_many(known)
        if scheduled.conflict:
            raise _taken(task)
        reply = f.ScheduleReply()
        _fill(reply, scheduled)
        return reply

    async def schedule_many(self, request: f.ScheduleManyRequest, *, timeout: float = 10) -> f.ScheduleManyReply:
        """Stores many tasks, at most 1000; each succeeds or fails by itself. Where the store fails them all, the whole call fails and may be repeated."""
        requests = request.requests
        check_count("requests", len(requests), MAX_REQUESTS)
        await self._lambdas.load(spec_lambdas(requests))
        reply = f.ScheduleManyReply()
        tasks: list[tuple[f.ScheduleResult, NewTask]] = []
        for each in requests:
            result = reply.results.add()
            try:
                tasks.append((result, self._new_task(each)))
            except AtfError as error:
                set_error(result.error, error)
                self._count(lambda_of(each.spec), _refusal(error))
        entries, tasks = await self._let_in(tasks)
        stored: Sequence[Scheduled | AtfError] = ()
        try:
            stored = await self._store.schedule_each([task for _, task in tasks])
        finally:
            for name, entry in entries.items():
                outcomes = zip(tasks, stored or repeat(None), strict=False)
                mine = (each for (_, task), each in outcomes if task.lambda_name == name)
                entry.ended(sum(not isinstance(each, Scheduled) or each.new for each in mine))
        away = [each for each in stored if isinstance(each, AtfError)]
        if away and len(away) == len(stored):
            raise away[0]
        for (result, task), scheduled in zip(tasks, stored, strict=True):
            if isinstance(scheduled, AtfError):
                set_error(result.error, scheduled)
            elif scheduled.left_out:
                set_error(result.error, too_many(self._lambdas.get(task.lambda_name)))
            elif scheduled.conflict:
                set_error(result.error, _taken(task))
            else:
                _fill(result.reply, scheduled)
        for (name, how), count in Counter(map(_how, tasks, stored)).items():
            self._count(name, how, count)
        _log_many(reply)
        return reply

    async def _let_in(
        self, tasks: list[tuple[f.ScheduleResult, NewTask]]
    ) -> tuple[dict[str, Admission], list[tuple[f.ScheduleResult, NewTask]]]:
        """Says to those that are too many of their lambda so, but for unique ones, which may still join a task that is there. Returns the
        entries by lambda, and the rest, which may stand in another order: that of each lambda stays.
        """
        names = {task.lambda_name for _, task in tasks}
        if not any(self._lambdas.get(name).in_force.max_pending for name in names):
            return {}, tasks
        by_lambda: dict[str, list[tuple[f.ScheduleResult, NewTask]]] = defaultdict(list)
        for each in tasks:
            by_lambda[each[1].lambda_name].append(each)
        entries: dict[str, Admission] = {}
        let_in: list[tuple[f.ScheduleResult, NewTask]] = []
        try:
            for name, some in by_lambda.items():
                ids = [task.stored_id for _, task in some]
                entry = entries[name] = await self._pending.enter(self._lambdas.get(name), ids)
                for place, (result, task) in enumerate(some):
                    refusal = entry.refusals.get(place)
                    if refusal is None:
                        let_in.append((result, task))
                    elif task.unique:
                        let_in.append((result, task._replace(joins=True)))
                    else:
                        set_error(result.error, refusal)
                        self._count(name, "too_many_pending")
        except BaseException:
            for entry in entries.values():
                entry.ended(0)
            raise
        return entries, let_in

    def _new_task(self, request: f.ScheduleRequest, tick: t.TickInfo | None = None) -> NewTask:
        task_id = rules.check_id(shown(request.id)) if request.id else new_id(self._runtime.random)
        asked = request.spec
        check_spec(asked)
        permit(Verb.SCHEDULE, lambda_of(asked))
        durability = asked_durability(request.durability)
        at_us, delay_us = check_when(request, self._runtime.wall_us())
        known = self._lambdas.get(lambda_of(asked))
        full = known.options(asked.options)
        spec = known_fields(asked)
        spec.ClearField("lambda")
        spec.ClearField("options")
        max_attempts = min(full.max_attempts, self._cap)
        if max_attempts < full.max_attempts:
            full = filled_in(t.TaskOptions(max_attempts=max_attempts), full)
        if tick is not None:
            spec.tick.CopyFrom(tick)
        if asked.traceparent:
            spec.traced_at_us = self._runtime.wall_us()
        ordering_key, concurrency, unique = spec.ordering_key, "", ""
        if asked.HasField("concurrency"):
            key = asked.concurrency
            concurrency = keys.concurrency(known.record.name, key.key, key.limit or 1, int(key.policy))
        if asked.HasField("unique"):
            unique = keys.unique(known.record.name, asked.unique.key, asked.unique.window_us, int(asked.unique.policy))
        return NewTask(
            task_id,
            self._route(spec, task_id) if tick is None else self._store.job_partition(tick.job),
            known.record.name,
            full.priority,
            front(known.record.name, full) + spec.SerializeToString(deterministic=True),
            digest(request),
            at_us,
            delay_us,
            max_attempts,
            full.max_losses,
            full.retention_us,
            ordering_key,
            durability,
            concurrency,
            unique,
            spec.affinity_key,
            labels=keys.labels(spec.labels) if spec.labels else "",
            entries=entries_of(known.spec, spec.payload, spec.encoding) if known.spec.search else "",
        )

    def _route(self, spec: t.TaskSpec, task_id: str) -> int:
        """The partition of a task.

        All its keys must lead to the same one, since one function keeps the order, the slots and the window. An affinity key is a
        preference: it decides where there is none of these, so that one partition remembers where its tasks ran.
        """
        # Most tasks have no key, at a quarter of the price.
        if not (spec.ordering_key or spec.HasField("concurrency") or spec.HasField("unique")):
            return self._store.partition_for(spec.affinity_key or task_id)
        named = {
            "ordering_key": spec.ordering_key,
            "concurrency.key": spec.concurrency.key,
            "unique.key": spec.unique.key,
        }
        routes = {field: self._store.partition_for(key) for field, key in named.items() if key}
        if len(set(routes.values())) > 1:
            raise InvalidArgument(
                f"{' and '.join(f'{field} {named[field]!r}' for field in routes)} belong to different partitions of the task store;"
                " a task's keys must be the same text, or it has only one of them"
            )
        return next(iter(routes.values())) if routes else self._store.partition_for(spec.affinity_key or task_id)


def digest(request: f.ScheduleRequest) -> bytes:
    """What tells two requests of one id apart: a hash of the request as it was sent, but for how safe it shall be and in which trace. Of
    encrypted arguments, which are other bytes each time, their fingerprint counts.
    """
    if request.durability or request.spec.traceparent or is_sealed(request.spec.payload):
        bare = f.ScheduleRequest()
        bare.CopyFrom(request)
        bare.ClearField("durability")
        bare.spec.payload = comparable(request.spec.payload)
        bare.spec.ClearField("traceparent")
        bare.spec.ClearField("tracestate")
        request = bare
    return hashlib.blake2b(request.SerializeToString(deterministic=True), digest_size=_DIGEST_BYTES).digest()


def _how(task: tuple[f.ScheduleResult, NewTask], scheduled: Scheduled | AtfError) -> tuple[str, str]:
    """A task's lambda, and what came of the task, for the metrics."""
    if isinstance(scheduled, AtfError) or scheduled.conflict:
        how = "refused"
    elif scheduled.left_out:
        how = "too_many_pending"
    else:
        how = "existed" if scheduled.existed else "accepted"
    return task[1].lambda_name, how


def _refusal(error: AtfError) -> str:
    return "too_many_pending" if isinstance(error, TooManyPending) else "refused"


def _fill(reply: f.ScheduleReply, scheduled: Scheduled) -> None:
    reply.id = scheduled.id
    if scheduled.existed:
        reply.existed = True
    reply.scheduled_at_us = scheduled.scheduled_at_us
    reply.durability = cast("t.Durability", scheduled.durability)


def _log_many(reply: f.ScheduleManyReply) -> None:
    if _log.debug_enabled():
        refused = sum(result.HasField("error") for result in reply.results)
        _log.debug("schedule_many", tasks=len(reply.results) - refused, refused=refused)


def _taken(task: NewTask) -> AlreadyExists:
    return AlreadyExists(f"task id {task.id!r} is taken by another request; the same request again would be fine")
