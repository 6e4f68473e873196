"""Makes the jobs that lambdas declare with their code, or brings them up to date, when an executor starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from atf.client.registration import left_jobs
from atf.client.whoami import signed
from atf.codec.cipher import Cipher
from atf.codec.requests import seal_job
from atf.errors import AlreadyExists, AtfError, InvalidArgument, NotFound
from atf.log import get_logger
from atf.rpc import frontend_pb2 as f, job_pb2 as j
from atf.rpc.api import Frontend

_AT_ONCE: Final = 32
"""Jobs that are looked up and made at once: one after the other thousands would keep an executor from starting for a minute."""

_WHY: Final = "its lambda's code declares it"

_log = get_logger(duty="jobs")


async def register_jobs(
    frontend: Frontend, declared: Iterable[j.JobSpec], namespaces: Iterable[str], cipher: Cipher | None = None
) -> None:
    """Makes the jobs that are declared, and says which were once and are not any more.

    Args:
        frontend: who makes them.
        declared: by the code of this executor.
        namespaces: of its lambdas.
        cipher: encrypts their arguments; None: they stay as they are.

    Raises:
        InvalidArgument: a schedule can't be read; says which job's.
        Unavailable, DeadlineExceeded: trying again is safe.
    """
    jobs = {each.name: each for each in declared}
    of_code = list(jobs.values())
    for start in range(0, len(of_code), _AT_ONCE):
        some = of_code[start : start + _AT_ONCE]
        ends = await asyncio.gather(*(_register(frontend, job, cipher) for job in some), return_exceptions=True)
        for error in filter(None, ends):
            raise error
    try:
        for name in await left_jobs(frontend, jobs, namespaces):
            _log.warning(
                "job is not in the code any more, and goes on: atf job rm deletes it, or atf lambda register --prune",
                job=name,
            )
    except AtfError as error:  # this is for people only: no executor stays away for it
        _log.info("can't say which jobs have left the code", error=str(error))


async def _register(frontend: Frontend, job: j.JobSpec, cipher: Cipher | None) -> None:
    known = await _known(frontend, job.name)
    if known.next_tick_at_us and not known.spec.code:
        _log.warning("job was made by hand; what the code says of it is not used", job=job.name)
    elif known.spec.code != job.code:  # also where it has ended: the same again would tick again
        try:
            request = f.ScheduleJobRequest(job=job, overwrite=bool(known.spec.code), **signed(why=_WHY))
            await frontend.schedule_job(request if cipher is None else seal_job(cipher, request))
            _log.info("job of the code", job=job.name, schedule=job.schedule)
        except AlreadyExists:
            pass  # a peer was faster
        except InvalidArgument as error:
            raise InvalidArgument(f"job {job.name} of the code: {error}") from None


async def _known(frontend: Frontend, name: str) -> j.Job:
    """A job that has not ended, or an empty one; of one that has ended, what its code was."""
    try:
        return await frontend.get_job(f.GetJobRequest(name=name))
    except NotFound:
        return j.Job()
