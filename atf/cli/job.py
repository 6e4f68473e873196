"""`atf job`: make, show and stop jobs."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from atf.client.paging import entries
from atf.client.whoami import signed, whoami
from atf.errors import InvalidArgument, NotFound
from atf.exits import EXIT_BAD_INPUT, EXIT_OK
from atf.rpc import api, frontend_pb2 as f, job_pb2 as j
from atf.runtime import SystemRuntime, new_id
from atf.sdk.job import job_spec
from atf.visible import visible

from .confirmation import confirm
from .encryption import encrypted_job
from .job_view import show_job, show_jobs
from .nouns import Noun
from .options import asks, bulk_flags, duration, lambda_argument, limit_flag, lists, option, why_flag
from .output import show
from .remote import ask
from .task_request import arguments_flags, build_request, fit

name_argument = click.argument("name", metavar="JOB")


@click.group(cls=Noun)
def job() -> None:
    """Jobs: schedules whose ticks make tasks. A name is namespace/name."""


@job.command("schedule")
@name_argument
@lambda_argument
@click.argument("schedule", metavar="[SCHEDULE]", required=False)
@arguments_flags
@option("--due-time", "T", "The first tick: an instant, or a duration from now.")
@option("--ttl", "T", "No tick after it: an instant, or a duration from the first.")
@option("--repeats", "N", "End after this many ticks.", int)
@option("--tz", "ZONE", "By whose clocks a cron expression is read.  [default: UTC]")
@option("--format", "unix", "The cron expression has five fields, without seconds.")
@option("--gap", "P", "A tick within a spring gap: skip, run_after.  [default: skip]")
@option("--fold", "P", "A tick that an autumn change makes twice: both, first, second.  [default: both]")
@option("--misfire", "P", "Ticks that were missed: latest, all, skip.  [default: latest]")
@click.option("--grace", type=duration, help="Pass over a tick that is later than this.  [default: 1h]")
@option("--overlap", "P", "While the tick before runs: queue, allow, skip, cancel_running.  [default: queue]")
@option("--max-retries", "N", "Of a tick whose task fails.  [default: 3]", int)
@click.option("--retry-interval", type=duration, help="Between them.  [default: 1s]")
@click.option("--jitter", type=duration, help="Spread the ticks' tasks over this time.  [default: 0]")
@click.option("--retention", type=duration, help="Keep the record of the ended job so long.  [default: 1d]")
@click.option("--overwrite", is_flag=True, help="Replace a job of this name.")
@why_flag
@asks
def schedule_(
    name: str,
    lambda_name: str,
    schedule: str | None,
    arguments: tuple[str, ...],
    payload: str | None,
    overwrite: bool,
    why: str,
    **given: Any,
) -> int:
    """Make a job: each tick of SCHEDULE makes a task of LAMBDA. Without SCHEDULE it ticks once, at --due-time.

    \b
    atf job schedule shop/nightly shop/report "0 30 2 * * *" --tz Europe/Paris -a of=sales
    atf job schedule shop/ping shop/ping "@every 10s" --overlap skip
    atf job schedule shop/once shop/report --due-time 1h30m
    """
    task = build_request(lambda_name, arguments=arguments, payload=payload).spec
    chosen: Any = {option: value for option, value in given.items() if value is not None}
    request = f.ScheduleJobRequest(
        job=job_spec(name, task, schedule, chosen),
        overwrite=overwrite,
        request_id=new_id(SystemRuntime().random),
        **signed(whoami(), why),
    )

    async def work(stub: api.Frontend) -> j.Job:
        await fit(stub, request.job.task, arguments)
        return await stub.schedule_job(encrypted_job(request))

    try:
        made = ask(work)
    except InvalidArgument as error:  # its second and third line show the place
        print(f"atf: {visible(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    show_job(made)
    return EXIT_OK


@job.command()
@name_argument
@asks
def get(name: str) -> None:
    """Show a job: its next tick, its last one and how that ended, and what was skipped."""
    show_job(ask(lambda stub: stub.get_job(f.GetJobRequest(name=name))))


@job.command()
@click.argument("prefix", metavar="[PREFIX]", default="")
@limit_flag
@lists
def ls(prefix: str, limit: int) -> None:
    """List the jobs whose names begin with PREFIX, or all."""
    show_jobs(ask(lambda stub: _list(stub, prefix, limit)))


@job.command()
@click.argument("names", metavar="JOB...", nargs=-1)
@option("--prefix", "PREFIX", 'All jobs whose names begin so; "*": all.')
@why_flag
@bulk_flags
@lists
def rm(names: tuple[str, ...], prefix: str | None, why: str, dry_run: bool) -> None:
    """Delete jobs, and cancel their tasks that have not started. What runs goes on, and does not run again."""
    if bool(names) == bool(prefix):
        raise InvalidArgument("name the jobs, or give --prefix, and not both")
    if dry_run:
        show_jobs(ask(lambda stub: _named(stub, names, prefix)))
        return
    which = f"all jobs whose names begin with {prefix}" if prefix and prefix != "*" else "all jobs"
    confirm(f"Delete {which if prefix else f'{len(names)} jobs'}", many=bool(prefix) or len(names) > 1)

    said = signed(whoami(), why)

    async def work(stub: api.Frontend) -> int:
        if prefix:
            return (await stub.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix=prefix, **said))).deleted
        return sum([(await stub.delete_job(f.DeleteJobRequest(name=each, **said))).existed for each in names])

    deleted = ask(work)
    show({"deleted": deleted}, f"deleted {deleted} of {len(names)}" if names else f"deleted {deleted}")


async def _named(stub: api.Frontend, names: tuple[str, ...], prefix: str | None) -> list[j.Job]:
    """The jobs that are meant and have not ended."""
    if prefix:
        return await _list(stub, "" if prefix == "*" else prefix, sys.maxsize)
    found = []
    for each in names:
        with contextlib.suppress(NotFound):
            found.append(await stub.get_job(f.GetJobRequest(name=each)))
    return found


@job.command()
@name_argument
@why_flag
@asks
def pause(name: str, why: str) -> None:
    """Stop the ticks of a job, those that wait as tasks too; what runs goes on."""
    show_job(ask(lambda stub: stub.pause_job(f.PauseJobRequest(name=name, **signed(whoami(), why)))))


@job.command()
@name_argument
@why_flag
@asks
def resume(name: str, why: str) -> None:
    """Let a paused job tick again. Its misfire policy says what becomes of the ticks it has missed; those that were kept as tasks run."""
    show_job(ask(lambda stub: stub.resume_job(f.ResumeJobRequest(name=name, **signed(whoami(), why)))))


@job.command()
@name_argument
@why_flag
@asks
def run(name: str, why: str) -> None:
    """Make a task of a job now, beside its ticks, and print its id."""
    request = f.RunJobNowRequest(name=name, task_id=new_id(SystemRuntime().random), **signed(whoami(), why))
    made = ask(lambda stub: stub.run_job_now(request)).id
    show({"id": made}, made)


async def _list(stub: api.Frontend, prefix: str, limit: int) -> list[j.Job]:
    return await entries(stub.list_jobs, f.ListJobsRequest(prefix=prefix), lambda page: page.jobs, limit)
