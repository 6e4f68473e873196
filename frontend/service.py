"""The frontend: checks what callers send, then calls one verb of the task store, then words the answer.

It keeps nothing that another frontend would need. Implements atf.rpc.api.Frontend; `timeout` is the transport's matter.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from atf.config.dapr_names import check_app_id
from atf.config.settings import FrontendSettings
from atf.errors import NotFound
from atf.log import get_logger
from atf.rpc import batch_pb2 as b
from atf.rpc import frontend_pb2 as f
from atf.rpc import job_pb2 as j
from atf.rpc import task_pb2 as t
from atf.runtime import Runtime
from atf.store.store import Store
from atf.task import (
    pool_called,
)

from .batch_intake import BatchIntake
from .batches import BatchRpcs
from .capacity import CapacityRpcs
from .gates import GateRpcs
from .hosts import HostRpcs
from .jobs import JobRpcs
from .keys import KeyRpcs
from .lambdas import Lambdas
from .pools import KnownPools
from .redaction import Redaction
from .redrive import RedriveRpc
from .registration import LambdaRpcs
from .removal import DeleteLambdaRpc
from .scheduling import ScheduleRpcs
from .status import StatusRpc
from .tasks import TaskRpcs
from .validate import shown
from .waiting import TaskWaits

_log = get_logger()


class FrontendService:
    """The scheduling service."""

    def __init__(self, *, store: Store, settings: FrontendSettings, runtime: Runtime) -> None:
        self._store = store
        self._lambdas = Lambdas(store, runtime)
        self._scheduling = ScheduleRpcs(store, self._lambdas, runtime, settings.max_attempts_cap)
        self._jobs = JobRpcs(store, self._lambdas, self._scheduling, settings.max_attempts_cap)
        self._keys = KeyRpcs(store)
        self._pools = KnownPools(store, self._lambdas)
        self._capacity = CapacityRpcs(store, self._lambdas, self._pools, runtime)
        self._removal = DeleteLambdaRpc(store, self._lambdas, self._jobs, self._capacity)
        self._gates = GateRpcs(store, self._lambdas)
        self._redaction = Redaction(self._lambdas)
        self._redrive = RedriveRpc(store, self._lambdas, self._redaction)
        self._status = StatusRpc(store, self._lambdas, self._jobs)
        self._waiting = TaskWaits(store, runtime)
        self._tasks = TaskRpcs(store, self._lambdas, self._redaction, self._waiting, self._gates, self._capacity)
        self._registration = LambdaRpcs(store, self._lambdas, self._pools, self._capacity)
        self._hosts = HostRpcs(store)
        intake = BatchIntake(
            store,
            self._lambdas,
            self._scheduling.pending,
            runtime,
            max_attempts=settings.batch_max_attempts,
            max_attempts_cap=settings.max_attempts_cap,
        )
        self._batches = BatchRpcs(store, self._redaction, intake, self._waiting, runtime)
        self._dapr_apps = settings.dapr_apps

    def drain(self) -> None:
        """Ends the long polls and the streams: their callers ask again, and reach another frontend."""
        self._batches.drain()
        self._waiting.drain()

    # --- tasks --------------------------------------------------------------------------------------------------------

    async def schedule(self, request: f.ScheduleRequest, *, timeout: float = 10) -> f.ScheduleReply:
        """Stores a task."""
        return await self._scheduling.schedule(request)

    async def schedule_many(self, request: f.ScheduleManyRequest, *, timeout: float = 10) -> f.ScheduleManyReply:
        """Stores many tasks, at most 1000."""
        reply = await self._scheduling.schedule_many(request.requests)
        if _log.debug_enabled():
            refused = sum(result.HasField("error") for result in reply.results)
            _log.debug("schedule_many", tasks=len(reply.results) - refused, refused=refused)
        return reply

    async def get_task(self, request: f.GetTaskRequest, *, timeout: float = 10) -> t.Task:
        """A task's record."""
        return await self._tasks.get_task(request)

    async def list_tasks(self, request: f.ListTasksRequest, *, timeout: float = 10) -> f.ListTasksReply:
        """A page of a lambda's tasks. Shorter than asked for where large results or payloads would make it more than 4 MiB."""
        return await self._tasks.list_tasks(request)

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float = 70) -> f.WaitTasksReply:
        """Answers when tasks have finished. At most 4 MiB of them: a caller asks again for those that are missing."""
        return await self._tasks.wait_tasks(request)

    async def cancel_tasks(self, request: f.CancelTasksRequest, *, timeout: float = 10) -> f.CancelTasksReply:
        """Cancels what has not started; asks what runs to stop."""
        return await self._tasks.cancel_tasks(request)

    async def retry_tasks(self, request: f.RetryTasksRequest, *, timeout: float = 10) -> f.RetryTasksReply:
        """Starts dead-lettered or cancelled tasks afresh."""
        return await self._tasks.retry_tasks(request)

    async def explain_task(self, request: f.ExplainTaskRequest, *, timeout: float = 10) -> f.ExplainTaskReply:
        """Says why a task has not started."""
        return await self._tasks.explain_task(request)

    # --- keys ---------------------------------------------------------------------------------------------------------

    async def list_keys(self, request: f.ListKeysRequest, *, timeout: float = 10) -> f.ListKeysReply:
        """The keys of a lambda that have stopped, or one key."""
        await self._lambdas.known(getattr(request, "lambda"))
        return await self._keys.list_keys(request)

    async def list_concurrency_keys(
        self, request: f.ListConcurrencyKeysRequest, *, timeout: float = 10
    ) -> f.ListConcurrencyKeysReply:
        """The concurrency keys of a lambda for which tasks wait, or one key."""
        await self._lambdas.known(getattr(request, "lambda"))
        return await self._keys.list_concurrency_keys(request)

    async def resume_key(self, request: f.ResumeKeyRequest, *, timeout: float = 10) -> f.ResumeKeyReply:
        """Lets a stopped key go on with the task that stopped it."""
        await self._lambdas.known(getattr(request, "lambda"))
        return await self._keys.resume_key(request)

    async def skip_key(self, request: f.SkipKeyRequest, *, timeout: float = 10) -> f.SkipKeyReply:
        """Lets a stopped key go on without the task that stopped it."""
        await self._lambdas.known(getattr(request, "lambda"))
        return await self._keys.skip_key(request)

    # --- batches ------------------------------------------------------------------------------------------------------

    async def schedule_batch(
        self, requests: AsyncIterator[b.ScheduleBatchRequest], *, timeout: float = 600
    ) -> b.ScheduleBatchReply:
        """Makes a batch, goes on with one, or extends one."""
        return await self._batches.schedule_batch(requests)

    async def get_batch(self, request: b.GetBatchRequest, *, timeout: float = 10) -> b.Batch:
        """A batch with its counts."""
        return await self._batches.get_batch(request)

    async def list_batches(self, request: b.ListBatchesRequest, *, timeout: float = 10) -> b.ListBatchesReply:
        """A page of batches."""
        return await self._batches.list_batches(request)

    async def list_batch_items(self, request: b.ListBatchItemsRequest, *, timeout: float = 10) -> b.ListBatchItemsReply:
        """A page of the items of a batch. Shorter than asked for where large results would make it more than 4 MiB."""
        return await self._batches.list_batch_items(request)

    def watch_batch(self, request: b.WatchBatchRequest, *, timeout: float = 3600) -> AsyncGenerator[b.Batch, None]:
        """How a batch goes on until it has ended."""
        return self._batches.watch_batch(request)

    async def cancel_batch(self, request: b.CancelBatchRequest, *, timeout: float = 10) -> b.Batch:
        """Cancels a batch."""
        return await self._batches.cancel_batch(request)

    async def retry_batch(self, request: b.RetryBatchRequest, *, timeout: float = 10) -> b.Batch:
        """Starts the items of a batch afresh that failed for good."""
        return await self._batches.retry_batch(request)

    async def delete_batch(self, request: b.DeleteBatchRequest, *, timeout: float = 10) -> b.DeleteBatchReply:
        """Deletes a batch that has ended."""
        return await self._batches.delete_batch(request)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    async def schedule_job(self, request: f.ScheduleJobRequest, *, timeout: float = 10) -> j.Job:
        """Makes a job, or replaces one."""
        return await self._redaction.job(await self._jobs.schedule_job(request))

    async def schedule_jobs(self, request: f.ScheduleJobsRequest, *, timeout: float = 10) -> f.ScheduleJobsReply:
        """Makes or replaces many jobs, at most 1000."""
        reply = await self._jobs.schedule_jobs(request.requests)
        await self._redaction.jobs(result.job for result in reply.results if result.HasField("job"))
        return reply

    async def get_job(self, request: f.GetJobRequest, *, timeout: float = 10) -> j.Job:
        """A job's record."""
        job = await self._jobs.get_job(request.name)
        return job if request.unredacted else await self._redaction.job(job)

    async def list_jobs(self, request: f.ListJobsRequest, *, timeout: float = 10) -> f.ListJobsReply:
        """A page of the jobs that have not ended."""
        reply = await self._jobs.list_jobs(request)
        if not request.unredacted:
            await self._redaction.jobs(reply.jobs)
        return reply

    async def delete_job(self, request: f.DeleteJobRequest, *, timeout: float = 10) -> f.DeleteJobReply:
        """Deletes a job; it need not exist."""
        return await self._jobs.delete_job(request.name)

    async def delete_jobs_by_prefix(
        self, request: f.DeleteJobsByPrefixRequest, *, timeout: float = 10
    ) -> f.DeleteJobsByPrefixReply:
        """Deletes the jobs whose names begin so."""
        return await self._jobs.delete_jobs_by_prefix(request.prefix)

    async def pause_job(self, request: f.PauseJobRequest, *, timeout: float = 10) -> j.Job:
        """Stops a job's ticks."""
        return await self._redaction.job(await self._jobs.pause_job(request.name))

    async def resume_job(self, request: f.ResumeJobRequest, *, timeout: float = 10) -> j.Job:
        """Lets a job tick again."""
        return await self._redaction.job(await self._jobs.resume_job(request.name))

    async def run_job_now(self, request: f.RunJobNowRequest, *, timeout: float = 10) -> f.ScheduleReply:
        """Makes a task of a job beside its ticks."""
        return await self._jobs.run_job_now(request)

    async def preview_schedule(
        self, request: f.PreviewScheduleRequest, *, timeout: float = 10
    ) -> f.PreviewScheduleReply:
        """The next ticks of a job that is not made."""
        return await self._jobs.preview_schedule(request)

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
        return await self._registration.register_lambdas(request)

    async def list_lambdas(self, request: f.ListLambdasRequest, *, timeout: float = 10) -> f.ListLambdasReply:
        """A page of lambdas with their counts and queues. It is shorter than asked for if their specs are large."""
        return await self._registration.list_lambdas(request)

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
        return await self._registration.set_lambda(request)

    # --- cores of pools -----------------------------------------------------------------------------------------------

    async def set_capacity(self, request: f.SetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        """Sets the cores of a pool."""
        return await self._capacity.set_capacity(request)

    async def get_capacity(self, request: f.GetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        """The cores of a pool, and who has them."""
        return await self._capacity.get_capacity(request.pool)

    async def list_capacity(self, request: f.ListCapacityRequest, *, timeout: float = 10) -> f.ListCapacityReply:
        """The pools that have cores."""
        return f.ListCapacityReply(pools=[pool_called(each) for each in await self._store.list_capacity()])

    async def list_hosts(self, request: f.ListHostsRequest, *, timeout: float = 10) -> f.ListHostsReply:
        """The worker hosts that are alive."""
        return await self._hosts.list_hosts()

    async def drain_host(self, request: f.DrainHostRequest, *, timeout: float = 10) -> f.DrainHostReply:
        """Has a worker host drain, or take tasks again."""
        return await self._hosts.drain_host(request)

    async def delete_lambda(self, request: f.DeleteLambdaRequest, *, timeout: float = 10) -> f.DeleteLambdaReply:
        """Forgets a lambda."""
        return await self._removal.delete_lambda(request)

    async def get_status(self, request: f.GetStatusRequest, *, timeout: float = 10) -> f.GetStatusReply:
        """How the whole cluster stands."""
        return await self._status.get_status(request)

    # --- gates --------------------------------------------------------------------------------------------------------

    async def set_gate(self, request: f.SetGateRequest, *, timeout: float = 10) -> f.Gate:
        """Keeps back, drops, delays or thins out tasks."""
        return await self._gates.set_gate(request)

    async def lift_gate(self, request: f.LiftGateRequest, *, timeout: float = 10) -> f.LiftGateReply:
        """Lifts gates."""
        return await self._gates.lift_gate(request)

    async def list_gates(self, request: f.ListGatesRequest, *, timeout: float = 10) -> f.ListGatesReply:
        """The gates that stand."""
        return await self._gates.list_gates(request)

    async def redrive(self, request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        """Starts dead letters afresh that match a filter."""
        return await self._redrive.redrive(request)

    async def list_audit(self, request: f.ListAuditRequest, *, timeout: float = 10) -> f.ListAuditReply:
        """Who did what to lambdas."""
        return await self._gates.list_audit(request)
