"""The frontend: checks what callers send, then calls one verb of the task store, then words the answer.

It keeps nothing that another frontend would need. Implements atf.rpc.api.Frontend; `timeout` is the transport's matter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from atf.config.dapr_names import check_app_id
from atf.config.settings import FrontendSettings
from atf.errors import InvalidArgument, NotFound, Unavailable
from atf.log import get_logger
from atf.rpc import batch_pb2 as b
from atf.rpc import frontend_pb2 as f
from atf.rpc import job_pb2 as j
from atf.rpc import task_pb2 as t
from atf.runtime import Runtime
from atf.sdk.isolation import chokes
from atf.store.claim_pause import ClaimPause
from atf.store.store import Store
from atf.store.types import AuditEntry, LambdaRecord, QueueDepth, TaskRecord
from atf.task import (
    DEFAULT_ENQUEUE_TIMEOUT_US,
    DEFAULT_QUEUE_LIMIT,
    MAX_AHEAD_US,
    MAX_BATCH,
    US,
    Status,
    check_lambda,
    pool_called,
)
from atf.times import length

from . import view
from .batches import Batches
from .capacity import Capacity
from .explain import explain, waits_for_executors
from .gates import Gates, check_who
from .jobs import Jobs
from .keys import Keys
from .lambdas import Known, Lambdas, did_you_mean, spec_of
from .pools import Pools
from .redaction import Redaction
from .redrive import Redrive
from .removal import Removal
from .scheduling import Scheduling
from .settings import ALL, door_settings, in_force, overridden, said
from .status import ClusterStatus, is_served
from .validate import MAX_REGISTERED_AT_ONCE, check_ids, check_lambda_spec, check_stored_id, shown
from .waiting import Waiting

DEFAULT_PAGE: Final = 100
MAX_WAIT_S: Final = 60.0
_READ_TOGETHER: Final = 32
_READ_WITH_SPEC: Final = 2
"""The same with their payloads, of 1 MiB each."""
_ANSWER_BYTES: Final = 3 << 19
"""Where an answer stops to grow: with the records read last, of 64 KiB of result each, it stays below 4 MiB."""

_log = get_logger()


class FrontendService:
    """The scheduling service."""

    def __init__(self, *, store: Store, settings: FrontendSettings, runtime: Runtime) -> None:
        self._store = store
        self._lambdas = Lambdas(store, runtime)
        self._scheduling = Scheduling(store, self._lambdas, runtime, settings.max_attempts_cap)
        self._jobs = Jobs(store, self._lambdas, self._scheduling, settings.max_attempts_cap)
        self._keys = Keys(store)
        self._pools = Pools(store, self._lambdas)
        self._capacity = Capacity(store, self._lambdas, self._pools, runtime)
        self._removal = Removal(store, self._lambdas, self._jobs, self._capacity)
        self._gates = Gates(store, self._lambdas)
        self._redaction = Redaction(self._lambdas)
        self._redrive = Redrive(store, self._lambdas, self._redaction)
        self._status = ClusterStatus(store, self._lambdas, self._jobs)
        self._waiting = Waiting(store, runtime)
        self._batches = Batches(
            store,
            self._lambdas,
            self._redaction,
            self._scheduling.pending,
            self._waiting,
            runtime,
            max_attempts=settings.batch_max_attempts,
            max_attempts_cap=settings.max_attempts_cap,
        )
        self._dapr_apps = settings.dapr_apps

    def drain(self) -> None:
        """Ends the long polls and the streams: their callers ask again, and reach another frontend."""
        self._batches.drain()
        self._waiting.drain()

    # --- tasks --------------------------------------------------------------------------------------------------------

    async def schedule(self, request: f.ScheduleRequest, *, timeout: float = 10) -> f.ScheduleReply:
        """Stores a task."""
        return await self._scheduling.one(request)

    async def schedule_many(self, request: f.ScheduleManyRequest, *, timeout: float = 10) -> f.ScheduleManyReply:
        """Stores many tasks, at most 1000."""
        reply = await self._scheduling.many(request.requests)
        if _log.says_debug():
            refused = sum(result.HasField("error") for result in reply.results)
            _log.debug("schedule_many", tasks=len(reply.results) - refused, refused=refused)
        return reply

    async def get_task(self, request: f.GetTaskRequest, *, timeout: float = 10) -> t.Task:
        """A task's record."""
        (record,) = await self._store.get_tasks([check_stored_id(request.id, self._store.partitions)])
        if record is None:
            raise view.no_task(request.id)
        (record,) = await self._shown([record], request)
        return view.task(record, with_spec=request.with_spec)

    async def list_tasks(self, request: f.ListTasksRequest, *, timeout: float = 10) -> f.ListTasksReply:
        """A page of a lambda's tasks. Shorter than asked for where large results or payloads would make it more than 4 MiB."""
        if not 0 <= request.page_size <= MAX_BATCH:
            raise InvalidArgument(f"page_size {request.page_size}: use 1 to {MAX_BATCH}; 0 means {DEFAULT_PAGE}")
        await self._known(getattr(request, "lambda"))
        status = _status(request.status)
        reply, token = f.ListTasksReply(), request.page_token
        left, size = request.page_size or DEFAULT_PAGE, 0
        while left > 0 and size < _ANSWER_BYTES:
            some = min(left, _READ_WITH_SPEC if request.with_spec else _READ_TOGETHER)
            records, token = await self._store.list_tasks(getattr(request, "lambda"), status, some, token)
            shown = await self._shown(records, request)
            reply.tasks.extend(view.task(record, with_spec=request.with_spec) for record in shown)
            left -= some
            size = reply.ByteSize()
            if not token:
                break
        reply.next_page_token = token
        return reply

    async def _shown(
        self, records: Sequence[TaskRecord], request: f.GetTaskRequest | f.ListTasksRequest
    ) -> list[TaskRecord]:
        if request.with_spec:
            return await self._redaction.with_spec(records, unredacted=request.unredacted)
        return [self._redaction.record(each) for each in records]

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float = 70) -> f.WaitTasksReply:
        """Answers when tasks have finished. At most 4 MiB of them: a caller asks again for those that are missing."""
        ids = check_ids(request.ids, self._store.partitions)
        if not ids:
            raise InvalidArgument("ids: name at least one task")
        if request.timeout_us < 0:
            raise InvalidArgument(f"timeout_us {request.timeout_us}: at least 0")
        seconds = min(request.timeout_us / US, MAX_WAIT_S)
        done = await self._waiting.finished(ids, seconds=seconds, want_all=request.all)
        return await self._finished([each for each in dict.fromkeys(ids) if each in done])

    async def _finished(self, ids: Sequence[str]) -> f.WaitTasksReply:
        reply = f.WaitTasksReply()
        for start in range(0, len(ids), _READ_TOGETHER):
            records = await self._store.get_tasks(ids[start : start + _READ_TOGETHER])
            done = (self._redaction.record(each) for each in records if each is not None and each.status.finished)
            reply.tasks.extend(map(view.task, done))
            if reply.ByteSize() > _ANSWER_BYTES:
                break
        return reply

    async def cancel_tasks(self, request: f.CancelTasksRequest, *, timeout: float = 10) -> f.CancelTasksReply:
        """Cancels what has not started; asks what runs to stop."""
        ids = check_ids(request.ids, self._store.partitions)
        reply = f.CancelTasksReply()
        for task_id, result in zip(ids, await self._store.cancel_tasks(ids), strict=True):
            reply.results.add(
                id=task_id,
                status=view.status(result.status),
                cancelled=result.cancelled,
                cancel_requested=result.cancel_requested,
            )
        return reply

    async def retry_tasks(self, request: f.RetryTasksRequest, *, timeout: float = 10) -> f.RetryTasksReply:
        """Starts dead-lettered or cancelled tasks afresh."""
        ids = check_ids(request.ids, self._store.partitions)
        reply = f.RetryTasksReply()
        for task_id, result in zip(ids, await self._store.retry_tasks(ids), strict=True):
            reply.results.add(
                id=task_id, status=view.status(result.status), retried=result.retried, held_by=result.held_by
            )
        return reply

    async def explain_task(self, request: f.ExplainTaskRequest, *, timeout: float = 10) -> f.ExplainTaskReply:
        """Says why a task has not started."""
        found = await self._store.explain_task(check_stored_id(request.id, self._store.partitions))
        if found is None:
            raise view.no_task(request.id)
        found = found._replace(record=self._redaction.record(found.record))
        if found.waits_for.startswith("rate="):
            held = (await self._known(found.record.lambda_name)).in_force
            found = found._replace(waits_for=f"burst={held.burst}") if chokes(held) else found
        gates = await self._gates.met(found)
        core = await self._capacity.lacks_core(found) if waits_for_executors(found) else None
        return explain(found, gates, core)

    # --- keys ---------------------------------------------------------------------------------------------------------

    async def list_keys(self, request: f.ListKeysRequest, *, timeout: float = 10) -> f.ListKeysReply:
        """The keys of a lambda that have stopped, or one key."""
        await self._known(getattr(request, "lambda"))
        return await self._keys.list(request)

    async def list_concurrency_keys(
        self, request: f.ListConcurrencyKeysRequest, *, timeout: float = 10
    ) -> f.ListConcurrencyKeysReply:
        """The concurrency keys of a lambda for which tasks wait, or one key."""
        await self._known(getattr(request, "lambda"))
        return await self._keys.list_concurrency(request)

    async def resume_key(self, request: f.ResumeKeyRequest, *, timeout: float = 10) -> f.ResumeKeyReply:
        """Lets a stopped key go on with the task that stopped it."""
        await self._known(getattr(request, "lambda"))
        return await self._keys.resume(request)

    async def skip_key(self, request: f.SkipKeyRequest, *, timeout: float = 10) -> f.SkipKeyReply:
        """Lets a stopped key go on without the task that stopped it."""
        await self._known(getattr(request, "lambda"))
        return await self._keys.skip(request)

    # --- batches ------------------------------------------------------------------------------------------------------

    async def schedule_batch(
        self, requests: AsyncIterator[b.ScheduleBatchRequest], *, timeout: float = 600
    ) -> b.ScheduleBatchReply:
        """Makes a batch, goes on with one, or extends one."""
        return await self._batches.schedule(requests)

    async def get_batch(self, request: b.GetBatchRequest, *, timeout: float = 10) -> b.Batch:
        """A batch with its counts."""
        return await self._batches.get(request)

    async def list_batches(self, request: b.ListBatchesRequest, *, timeout: float = 10) -> b.ListBatchesReply:
        """A page of batches."""
        return await self._batches.list(request)

    async def list_batch_items(self, request: b.ListBatchItemsRequest, *, timeout: float = 10) -> b.ListBatchItemsReply:
        """A page of the items of a batch. Shorter than asked for where large results would make it more than 4 MiB."""
        return await self._batches.items(request)

    def watch_batch(self, request: b.WatchBatchRequest, *, timeout: float = 3600) -> AsyncGenerator[b.Batch, None]:
        """How a batch goes on until it has ended."""
        return self._batches.watch(request)

    async def cancel_batch(self, request: b.CancelBatchRequest, *, timeout: float = 10) -> b.Batch:
        """Cancels a batch."""
        return await self._batches.cancel(request)

    async def retry_batch(self, request: b.RetryBatchRequest, *, timeout: float = 10) -> b.Batch:
        """Starts the items of a batch afresh that failed for good."""
        return await self._batches.retry(request)

    async def delete_batch(self, request: b.DeleteBatchRequest, *, timeout: float = 10) -> b.DeleteBatchReply:
        """Deletes a batch that has ended."""
        return await self._batches.delete(request)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    async def schedule_job(self, request: f.ScheduleJobRequest, *, timeout: float = 10) -> j.Job:
        """Makes a job, or replaces one."""
        return await self._redaction.job(await self._jobs.schedule(request))

    async def schedule_jobs(self, request: f.ScheduleJobsRequest, *, timeout: float = 10) -> f.ScheduleJobsReply:
        """Makes or replaces many jobs, at most 1000."""
        reply = await self._jobs.schedule_many(request.requests)
        await self._redaction.jobs(result.job for result in reply.results if result.HasField("job"))
        return reply

    async def get_job(self, request: f.GetJobRequest, *, timeout: float = 10) -> j.Job:
        """A job's record."""
        job = await self._jobs.get(request.name)
        return job if request.unredacted else await self._redaction.job(job)

    async def list_jobs(self, request: f.ListJobsRequest, *, timeout: float = 10) -> f.ListJobsReply:
        """A page of the jobs that have not ended."""
        reply = await self._jobs.list(request)
        if not request.unredacted:
            await self._redaction.jobs(reply.jobs)
        return reply

    async def delete_job(self, request: f.DeleteJobRequest, *, timeout: float = 10) -> f.DeleteJobReply:
        """Deletes a job; it need not exist."""
        return await self._jobs.delete(request.name)

    async def delete_jobs_by_prefix(
        self, request: f.DeleteJobsByPrefixRequest, *, timeout: float = 10
    ) -> f.DeleteJobsByPrefixReply:
        """Deletes the jobs whose names begin so."""
        return await self._jobs.delete_by_prefix(request.prefix)

    async def pause_job(self, request: f.PauseJobRequest, *, timeout: float = 10) -> j.Job:
        """Stops a job's ticks."""
        return await self._redaction.job(await self._jobs.pause(request.name, paused=True))

    async def resume_job(self, request: f.ResumeJobRequest, *, timeout: float = 10) -> j.Job:
        """Lets a job tick again."""
        return await self._redaction.job(await self._jobs.pause(request.name, paused=False))

    async def run_job_now(self, request: f.RunJobNowRequest, *, timeout: float = 10) -> f.ScheduleReply:
        """Makes a task of a job beside its ticks."""
        return await self._jobs.run_now(request)

    async def preview_schedule(
        self, request: f.PreviewScheduleRequest, *, timeout: float = 10
    ) -> f.PreviewScheduleReply:
        """The next ticks of a job that is not made."""
        return await self._jobs.preview(request)

    # --- applications that were written for Dapr ----------------------------------------------------------------------

    async def find_dapr_app(self, request: f.FindDaprAppRequest, *, timeout: float = 10) -> f.FindDaprAppReply:
        """Where an application listens."""
        address = self._dapr_apps.get(check_app_id(shown(request.app_id)))
        if address is None:
            raise NotFound(
                f"no address is set for the app {request.app_id!r}: start the frontend with --dapr-app"
                f" {request.app_id}=HOST:PORT (or ATF_DAPR_APP, or `dapr_app` in atf.toml)"
            )
        return f.FindDaprAppReply(address=address)

    # --- lambdas ------------------------------------------------------------------------------------------------------

    async def register_lambdas(
        self, request: f.RegisterLambdasRequest, *, timeout: float = 10
    ) -> f.RegisterLambdasReply:
        """Makes lambdas known, all or none of them; what is known already is brought up to date."""
        if len(request.lambdas) > MAX_REGISTERED_AT_ONCE:
            raise InvalidArgument(f"{len(request.lambdas)} lambdas: at most {MAX_REGISTERED_AT_ONCE} in one call")
        await self._check_specs(request.lambdas)
        changed = await self._store.register_lambdas([_record(spec) for spec in request.lambdas])
        await self._lambdas.refresh()
        if forgotten := [spec.name for spec in request.lambdas if not self._lambdas.said_of(spec.name)]:
            # It has come back with less than it had acknowledged; whoever registers asks again, and goes on only then.
            raise Unavailable(
                f"the task store has forgotten what was just registered ({forgotten[0]}): it was restarted. Try again"
            )
        if changed:
            _log.info("register_lambdas", lambdas=len(request.lambdas), changed=changed)
            self._warn_of_chokes(spec.name for spec in request.lambdas)
        return f.RegisterLambdasReply(warnings=await self._pools.warnings({spec.name for spec in request.lambdas}))

    async def _check_specs(self, specs: Sequence[f.LambdaSpec]) -> None:
        try:
            for spec in specs:
                check_lambda_spec(spec)
        except InvalidArgument:  # perhaps it was registered so already, with an older release
            await self._lambdas.refresh()
            for spec in specs:
                check_lambda_spec(spec, self._lambdas.said_of(spec.name))

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
        if not 0 <= request.page_size <= MAX_BATCH:
            raise InvalidArgument(f"page_size {request.page_size}: use 1 to {MAX_BATCH}; 0 means {MAX_BATCH}")
        if request.page_token:
            _check_token(request.page_token)
        name = getattr(request, "lambda")
        await self._lambdas.refresh()
        if name:
            chosen: Sequence[Known] = [self._lambdas.get(check_lambda(shown(name)))]
            more = False
        else:
            chosen, more = _page(self._lambdas.all(), request.page_token, request.page_size or MAX_BATCH)
        counts = await self._store.counts_of([known.record.name for known in chosen])
        queues: dict[str, list[QueueDepth]] = defaultdict(list)
        for depth in await self._store.queues():
            queues[depth.lambda_name].append(depth)
        served = await self._store.served()
        infos = [
            _info(known, counts[known.record.name], queues[known.record.name], is_served(known, served))
            for known in chosen
        ]
        pause = ClaimPause.of_all(await self._store.claim_pauses())
        return f.ListLambdasReply(
            lambdas=infos,
            next_page_token=chosen[-1].record.name if more else "",
            claims_paused=pause.sentence if pause else "",
        )

    async def pause_lambda(self, request: f.PauseLambdaRequest, *, timeout: float = 10) -> f.PauseLambdaReply:
        """Stops a lambda's tasks from being started."""
        await self._gates.pause_lambda(request)
        return f.PauseLambdaReply()

    async def resume_lambda(self, request: f.ResumeLambdaRequest, *, timeout: float = 10) -> f.ResumeLambdaReply:
        """Lets a lambda's tasks start again."""
        await self._gates.resume_lambda(request)
        return f.ResumeLambdaReply()

    async def set_lambda(self, request: f.SetLambdaRequest, *, timeout: float = 10) -> f.LambdaInfo:
        """Sets what goes before what a lambda's code says."""
        name = getattr(request, "lambda")
        await self._known(name)

        def change(record: LambdaRecord) -> str:
            return overridden(spec_of(record), record.overrides, request.set, request.unset)

        if {"pool", ALL} & {*request.set, *request.unset}:
            await self._check_move(name, change)
        await self._store.set_lambda(name, change)
        _log.info("set_lambda", name=name, set=dict(request.set), unset=list(request.unset))
        (info,) = (await self.list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": name}))).lambdas
        return info

    async def _check_move(self, name: str, change: Callable[[LambdaRecord], str]) -> None:
        """Whether a lambda may go to the pool that this change gives it."""
        await self._lambdas.refresh()
        known = self._lambdas.get(name)
        pool = in_force(known.spec, change(known.record)).pool
        if pool != known.in_force.pool:
            await self._pools.check_known(pool)
            await self._capacity.check_may_leave(name, known.in_force.pool)

    # --- cores of pools -----------------------------------------------------------------------------------------------

    async def set_capacity(self, request: f.SetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        """Sets the cores of a pool."""
        return await self._capacity.set(request)

    async def get_capacity(self, request: f.GetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        """The cores of a pool, and who has them."""
        return await self._capacity.get(request.pool)

    async def list_capacity(self, request: f.ListCapacityRequest, *, timeout: float = 10) -> f.ListCapacityReply:
        """The pools that have cores."""
        return f.ListCapacityReply(pools=[pool_called(each) for each in await self._store.list_capacity()])

    async def list_hosts(self, request: f.ListHostsRequest, *, timeout: float = 10) -> f.ListHostsReply:
        """The worker hosts that are alive."""
        now_us, hosts = await self._store.list_hosts()
        return f.ListHostsReply(hosts=[view.host(each) for each in hosts], now_us=now_us)

    async def drain_host(self, request: f.DrainHostRequest, *, timeout: float = 10) -> f.DrainHostReply:
        """Has a worker host drain, or take tasks again."""
        check_who(request.who, request.why)
        if request.HasField("for_us") and not 0 < request.for_us <= MAX_AHEAD_US:  # 0 would be taken for no end
            raise InvalidArgument(f"for {length(request.for_us)}: use more than 0 s and at most ten years")
        if request.resume and request.HasField("for_us"):
            raise InvalidArgument("for_us: of no use with resume; leave it out")
        _, hosts = await self._store.list_hosts()
        names = {each.name for each in hosts}
        host = shown(request.host)
        if host not in names and not request.resume:
            raise NotFound(
                f"no worker host {host!r} is alive{did_you_mean(host, names) or '; atf host lists those that are'}"
            )
        if not await self._store.drain_host(host, drains=not request.resume, seconds=request.for_us / US):
            draining = {each.name for each in hosts if each.drain_until_us is not None}
            raise NotFound(
                f"the host {host!r} does not drain{did_you_mean(host, draining) or '; atf host lists those that do'}"
            )
        verb = "resume_host" if request.resume else "drain_host"
        await self._store.add_audit(AuditEntry(0, 0, verb, "", {}, request.who, request.why, host))
        _log.info(verb, host=host)
        return f.DrainHostReply()

    async def delete_lambda(self, request: f.DeleteLambdaRequest, *, timeout: float = 10) -> f.DeleteLambdaReply:
        """Forgets a lambda."""
        return await self._removal.delete(request)

    async def get_status(self, request: f.GetStatusRequest, *, timeout: float = 10) -> f.GetStatusReply:
        """How the whole cluster stands."""
        return await self._status.get(request)

    # --- gates --------------------------------------------------------------------------------------------------------

    async def set_gate(self, request: f.SetGateRequest, *, timeout: float = 10) -> f.Gate:
        """Keeps back, drops, delays or thins out tasks."""
        return await self._gates.set(request)

    async def lift_gate(self, request: f.LiftGateRequest, *, timeout: float = 10) -> f.LiftGateReply:
        """Lifts gates."""
        return await self._gates.lift(request)

    async def list_gates(self, request: f.ListGatesRequest, *, timeout: float = 10) -> f.ListGatesReply:
        """The gates that stand."""
        return await self._gates.list(request)

    async def redrive(self, request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        """Starts dead letters afresh that match a filter."""
        return await self._redrive.page(request)

    async def list_audit(self, request: f.ListAuditRequest, *, timeout: float = 10) -> f.ListAuditReply:
        """Who did what to lambdas."""
        return await self._gates.audit(request)

    async def _known(self, name: str) -> Known:
        check_lambda(shown(name))
        await self._lambdas.load([name])
        return self._lambdas.get(name)


def _status(asked: int) -> Status | None:
    try:
        return Status(asked) if asked else None
    except ValueError:
        raise InvalidArgument(f"status {asked}: there is none of this number") from None


def _check_token(token: str) -> None:
    try:
        check_lambda(shown(token))
    except InvalidArgument:
        raise InvalidArgument(f"page_token {shown(token)!r}: give the next_page_token of the page before") from None


def _page(every: Sequence[Known], token: str, size: int) -> tuple[Sequence[Known], bool]:
    """The lambdas after the name that is the token, as many as one answer holds; and whether there are more."""
    first = last = bisect_right(every, token, key=lambda each: each.record.name)
    taken = 0
    while last < len(every) and last - first < size and taken < _ANSWER_BYTES:
        taken += 2 * len(every[last].record.spec)  # it comes twice: as the code says, and in force
        last += 1
    return every[first:last], last < len(every)


def _record(spec: f.LambdaSpec) -> LambdaRecord:
    known = f.LambdaSpec()
    known.CopyFrom(spec)
    known.DiscardUnknownFields()  # of any size, and no rule has looked at them
    return LambdaRecord(
        name=spec.name,
        spec=known.SerializeToString(deterministic=True),
        queue_limit=spec.queue_limit or DEFAULT_QUEUE_LIMIT,
        enqueue_timeout_us=spec.enqueue_timeout_us or DEFAULT_ENQUEUE_TIMEOUT_US,
        paused=False,  # the store leaves it as it stands
        settings=" ".join(f"{name}={value}" for name, value in sorted(door_settings(spec).items())),
    )


def _info(known: Known, counts: dict[Status, int], queues: Sequence[QueueDepth], served: bool) -> f.LambdaInfo:
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
