"""Dapr's scheduler service, for sidecars that take a frontend for it: its jobs are ATF's jobs, its triggers the tasks of their ticks.

What a trigger says stands in the payload of its task: name, data and metadata, as they came. Who gets it is watch.py's to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from google.protobuf.message import DecodeError

from atf.auth.grants import Verb
from atf.config.settings import Timing
from atf.errors import Internal, NotFound, ResourceExhausted
from atf.rpc import api, dapr_scheduler_pb2 as d, frontend_pb2 as f, job_pb2 as j
from atf.runtime import Runtime
from atf.store.store import Store
from atf.task import MAX_BATCH_BYTES

from . import names
from .intake import PRIORITY
from .jobs import fill_job, job_spec, pages_of_jobs, schedule_job, who_of
from .permits import permitted_to
from .watch import WatchStreams

SERVICE: Final = "dapr.proto.scheduler.v1.Scheduler"
"""What callers call it."""
MAX_LOSSES: Final = 100
"""Frontends that may die one after the other while one of their watchers has a trigger: no fault of the trigger's."""


class SchedulerService:
    """dapr.proto.scheduler.v1.Scheduler.

    Args:
        frontend: where jobs are made and found.
        store: where triggers lie.
        timing: how long leases last.
        runtime: clocks and chance.

    Attributes:
        hosts: addresses that WatchHosts tells.
    """

    def __init__(self, *, frontend: api.Frontend, store: Store, timing: Timing, runtime: Runtime) -> None:
        self.hosts: tuple[str, ...] = ()
        self._frontend = frontend
        self._store = store
        self._watch = WatchStreams(store=store, timing=timing, runtime=runtime)
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Ends the streams, those of watchers that have triggers when these are acknowledged, or after some seconds."""
        self._draining.set()
        self._watch.drain()

    async def close(self) -> None:
        """Records what watchers have said, hands the rest back, and ends all duties. The store must still be open."""
        await self._watch.close()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    async def schedule_job(self, request: d.ScheduleJobRequest) -> d.ScheduleJobResponse:
        """Makes a job, or replaces one, whose trigger is taken back where no watcher has it."""
        job, metadata = request.job, request.metadata
        name = names.job_name(request.name, metadata)
        trigger = d.WatchJobsResponse(
            name=request.name, metadata=metadata, data=job.data if job.HasField("data") else None
        )
        trigger.DiscardUnknownFields()  # of any size, and no rule has looked at them
        spec = job_spec(name, names.lambda_name(metadata), job, trigger)
        spec.task.options.priority, spec.task.options.max_losses = PRIORITY, MAX_LOSSES
        signature = "(triggers of Dapr's jobs)"
        with permitted_to(Verb.SCHEDULE, names.lambda_name(metadata)):
            await schedule_job(self._frontend, spec, metadata.app_id, overwrite=request.overwrite, signature=signature)
        return d.ScheduleJobResponse()

    async def get_job(self, request: d.GetJobRequest) -> d.GetJobResponse:
        """A job that has not ended."""
        name = names.job_name(request.name, request.metadata)
        with permitted_to(Verb.READ_PAYLOAD, names.lambda_name(request.metadata)):
            job = await self._frontend.get_job(f.GetJobRequest(name=name, unredacted=True))
        if not job.next_tick_at_us:
            raise NotFound(f"there is no job {request.name!r}, or it has ended")
        return d.GetJobResponse(job=_named(job).job)

    async def list_jobs(self, request: d.ListJobsRequest) -> d.ListJobsResponse:
        """The jobs of an app, an actor, or an actor's type that have not ended."""
        prefix, found = names.prefix(request.metadata), d.ListJobsResponse()
        with permitted_to(Verb.READ_PAYLOAD, names.lambda_name(request.metadata)):
            async for jobs in pages_of_jobs(self._frontend, prefix):
                found.jobs.extend(map(_named, jobs))
                if found.ByteSize() > MAX_BATCH_BYTES:
                    raise ResourceExhausted(
                        f"the jobs come to more than {MAX_BATCH_BYTES >> 20} MiB, and this call answers with all of them at once; atf job"
                        f" ls {prefix} has pages"
                    )
        return found

    async def delete_job(self, request: d.DeleteJobRequest) -> d.DeleteJobResponse:
        """Deletes a job, which need not exist, and its trigger where no watcher has that."""
        name = names.job_name(request.name, request.metadata)
        with permitted_to(Verb.SCHEDULE, names.lambda_name(request.metadata)):
            await self._frontend.delete_job(f.DeleteJobRequest(name=name, who=who_of(request.metadata.app_id)))
        return d.DeleteJobResponse()

    async def delete_by_metadata(self, request: d.DeleteByMetadataRequest) -> d.DeleteByMetadataResponse:
        """Deletes the jobs of an app, an actor, an actor's type, or of actors whose ids begin alike."""
        await self._delete(request.metadata, names.prefix(request.metadata, id_prefix=request.id_prefix_match))
        return d.DeleteByMetadataResponse()

    async def delete_by_name_prefix(self, request: d.DeleteByNamePrefixRequest) -> d.DeleteByNamePrefixResponse:
        """Deletes the jobs of an app or an actor whose names begin alike."""
        await self._delete(request.metadata, names.prefix(request.metadata, name_prefix=request.name_prefix))
        return d.DeleteByNamePrefixResponse()

    async def _delete(self, metadata: d.JobMetadata, prefix: str) -> None:
        """Deletes the jobs whose names begin so, and their triggers, also where a job has ended with its last tick."""
        asked = f.DeleteJobsByPrefixRequest(prefix=prefix, who=who_of(metadata.app_id))
        with permitted_to(Verb.SCHEDULE, names.lambda_name(metadata)):
            await self._frontend.delete_jobs_by_prefix(asked)

    # --- streams ------------------------------------------------------------------------------------------------------

    def watch_jobs(self, requests: AsyncIterator[d.WatchJobsRequest]) -> AsyncGenerator[d.WatchJobsResponse, None]:
        """Triggers for one watcher, which acknowledges each."""
        return self._watch.jobs(requests)

    async def watch_hosts(self, _request: d.WatchHostsRequest) -> AsyncGenerator[d.WatchHostsResponse, None]:
        """Where schedulers are, once; then it stays open for as long as this one serves."""
        yield d.WatchHostsResponse(hosts=[d.Host(address=each) for each in self.hosts])
        await self._draining.wait()


def _named(job: j.Job) -> d.NamedJob:
    """A job of ours as it came."""
    try:
        trigger = d.WatchJobsResponse.FromString(job.spec.task.payload)
    except DecodeError as error:
        raise Internal(f"job {job.spec.name!r} can't be read, and was not made through this service: {error}") from None
    named = d.NamedJob(name=trigger.name, metadata=trigger.metadata)
    fill_job(named.job, job.spec)
    if trigger.HasField("data"):
        named.job.data.CopyFrom(trigger.data)
    return named
