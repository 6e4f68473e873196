"""dapr.proto.runtime.v1.Dapr, as far as it is about jobs: what an application's SDK calls, in words of the frontend's own API.

Errors are gRPC's of ATF, with the reasons that Dapr publishes for its jobs API, in its domain. Keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from atf.auth.grants import Verb
from atf.config.dapr_names import DELIVER, check_app_id, job_of, namespace_of, split_job
from atf.config.settings import FrontendSettings
from atf.errors import AtfError, FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted
from atf.frontend.validate import shown
from atf.rpc import api, dapr_runtime_pb2 as d, frontend_pb2 as f, job_pb2 as j
from atf.task import MAX_BATCH_BYTES

from .jobs import data_of, fill_job, job_spec, pages_of_jobs, schedule_job, who_of
from .permits import permitted_to

SERVICE: Final = "dapr.proto.runtime.v1.Dapr"
DOMAIN: Final = "dapr.io"
APP_ID: Final = "dapr-app-id"
"""What came along with a call by this name says whose call it is."""

EMPTY: Final = "DAPR_SCHEDULER_EMPTY"
NAME_EMPTY: Final = "DAPR_SCHEDULER_JOB_NAME_EMPTY"
NAME_IN_BODY: Final = "DAPR_SCHEDULER_JOB_NAME"
SCHEDULE_EMPTY: Final = "DAPR_SCHEDULER_SCHEDULE_EMPTY"
SCHEDULE: Final = "DAPR_SCHEDULER_SCHEDULE_JOB"
GET: Final = "DAPR_SCHEDULER_GET_JOB"
LIST: Final = "DAPR_SCHEDULER_LIST_JOBS"
DELETE: Final = "DAPR_SCHEDULER_DELETE_JOB"

Metadata = Mapping[str, str]


class DaprRuntime:
    """The service.

    Args:
        frontend: to whom the calls go on.
        settings: whose calls they are where they do not say.
    """

    def __init__(self, frontend: api.Frontend, settings: FrontendSettings) -> None:
        self._frontend = frontend
        self._app_id = settings.dapr_app_id

    async def schedule_job(self, request: d.ScheduleJobRequest, metadata: Metadata) -> d.ScheduleJobResponse:
        """Makes a job, or replaces one where `overwrite` says so."""
        with _said_as(SCHEDULE), self._permitted(Verb.SCHEDULE, metadata):
            if not request.HasField("job"):
                raise InvalidArgument("job: it is empty; describe one").with_reason(EMPTY, DOMAIN)
            job = request.job
            name = self._job(job.name, metadata)
            if not job.HasField("schedule") and not job.HasField("due_time"):
                raise InvalidArgument("schedule: give one, or a due_time, or both").with_reason(SCHEDULE_EMPTY, DOMAIN)
            spec, app_id = job_spec(name, DELIVER, job, job.data), self._caller(metadata)
            await schedule_job(self._frontend, spec, app_id, overwrite=request.overwrite)
        return d.ScheduleJobResponse()

    async def get_job(self, request: d.GetJobRequest, metadata: Metadata) -> d.GetJobResponse:
        """A job that has not ended."""
        with _said_as(GET), self._permitted(Verb.READ_PAYLOAD, metadata):
            found = await self._frontend.get_job(
                f.GetJobRequest(name=self._job(request.name, metadata), unredacted=True)
            )
            if not found.next_tick_at_us:
                raise NotFound(f"the job {request.name!r} has ended")
            return d.GetJobResponse(job=_job(found.spec))

    async def list_jobs(self, request: d.ListJobsRequest, metadata: Metadata) -> d.ListJobsResponse:
        """All jobs of an application. There are no pages: what an answer can't hold is refused."""
        with _said_as(LIST), self._permitted(Verb.READ_PAYLOAD, metadata):
            prefix, reply = namespace_of(self._caller(metadata)), d.ListJobsResponse()
            async for jobs in pages_of_jobs(self._frontend, prefix):
                reply.jobs.extend(_job(each.spec) for each in jobs)
                if reply.ByteSize() > MAX_BATCH_BYTES:
                    raise ResourceExhausted(
                        f"the jobs of this app take more than {MAX_BATCH_BYTES >> 20} MiB, which no answer holds: atf job ls"
                        f" {prefix} lists them in pages"
                    )
            return reply

    async def delete_job(self, request: d.DeleteJobRequest, metadata: Metadata) -> d.DeleteJobResponse:
        """Deletes a job; it need not exist."""
        with _said_as(DELETE), self._permitted(Verb.SCHEDULE, metadata):
            name = self._job(request.name, metadata)
            await self._frontend.delete_job(f.DeleteJobRequest(name=name, who=who_of(self._caller(metadata))))
        return d.DeleteJobResponse()

    async def delete_jobs_by_prefix(
        self, request: d.DeleteJobsByPrefixRequest, metadata: Metadata
    ) -> d.DeleteJobsByPrefixResponse:
        """Deletes an application's jobs whose names begin so; all of them where nothing is given."""
        with _said_as(DELETE), self._permitted(Verb.SCHEDULE, metadata):
            app_id = self._caller(metadata)
            asked = f.DeleteJobsByPrefixRequest(prefix=namespace_of(app_id) + request.name_prefix, who=who_of(app_id))
            await self._frontend.delete_jobs_by_prefix(asked)
        return d.DeleteJobsByPrefixResponse()

    # Releases before 1.18 call them so.
    schedule_job_alpha1 = schedule_job
    get_job_alpha1 = get_job
    list_jobs_alpha1 = list_jobs
    delete_job_alpha1 = delete_job
    delete_jobs_by_prefix_alpha1 = delete_jobs_by_prefix

    def _permitted(self, verb: Verb, metadata: Metadata) -> AbstractContextManager[None]:
        """What is done within, the caller may do to the application's jobs."""
        return permitted_to(verb, namespace_of(self._caller(metadata)).rstrip("/"))

    def _job(self, name: str, metadata: Metadata) -> str:
        """The name of the caller's job, as ATF has it."""
        if not name:
            raise InvalidArgument("name: it is empty; give the job one").with_reason(NAME_EMPTY, DOMAIN)
        app_id = self._caller(metadata)
        try:
            return job_of(app_id, name)
        except InvalidArgument as error:
            raise InvalidArgument(f"name: {error}") from None

    def _caller(self, metadata: Metadata) -> str:
        """Whose call it is."""
        app_id = metadata.get(APP_ID) or self._app_id
        if not app_id:
            raise FailedPrecondition(
                f"this frontend can't tell whose job it is: start it with --dapr-app-id ID (or ATF_DAPR_APP_ID), or send {APP_ID}"
                " as metadata or header of the call"
            )
        try:
            return check_app_id(shown(app_id))
        except InvalidArgument as error:
            raise InvalidArgument(f"{APP_ID}: {error}") from None


@contextmanager
def _said_as(reason: str) -> Iterator[None]:
    """Gives every error that has none of Dapr's reasons this one."""
    try:
        yield
    except AtfError as error:
        if error.domain != DOMAIN:
            error.with_reason(reason, DOMAIN)
        raise


def _job(spec: j.JobSpec) -> d.Job:
    """A job in Dapr's words."""
    app_id_and_name = split_job(spec.name)
    made = d.Job(name=app_id_and_name[1] if app_id_and_name else spec.name, data=data_of(spec))
    fill_job(made, spec)
    return made
