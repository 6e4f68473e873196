"""`atf job`: make, show and stop jobs."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from atf.client.paging import entries
from atf.errors import InvalidArgument, NotFound
from atf.exits import EXIT_BAD_INPUT, EXIT_OK
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.rpc import job_pb2 as j
from atf.runtime import SystemRuntime, new_id
from atf.schedule.dst import Cron, Fold, Gap
from atf.schedule.job_plan import DEFAULT_GRACE_US, plan_of
from atf.sdk.job import job_spec
from atf.times import length
from atf.visible import one_line, visible

from .confirmation import bulk_flags, confirm
from .nouns import Noun
from .options import as_json, duration, frontend_flag, no_header
from .output import print_json, print_table, status_name, when
from .remote import ask
from .schedule import build_request, fit

_PAGE = 100
name_argument = click.argument("name", metavar="JOB")


@click.group(cls=Noun)
def job() -> None:
    """Jobs: schedules whose ticks make tasks. A name is namespace/name."""


@job.command("schedule")
@name_argument
@click.argument("lambda_name", metavar="LAMBDA")
@click.argument("schedule", metavar="[SCHEDULE]", required=False)
@click.option(
    "-a", "--json-args", "arguments", multiple=True, metavar="NAME=VALUE",
    help="An argument of the lambda: its text, or JSON where it takes no text. May be given again.",
)  # fmt: skip
@click.option("--payload", metavar="JSON", help="All arguments by name, as one JSON object; - reads it from stdin.")
@click.option("--due-time", metavar="T", help="The first tick: an instant, or a duration from now.")
@click.option("--ttl", metavar="T", help="No tick after it: an instant, or a duration from the first.")
@click.option("--repeats", type=int, metavar="N", help="End after this many ticks.")
@click.option("--tz", metavar="ZONE", help="By whose clocks a cron expression is read.  [default: UTC]")
@click.option("--format", metavar="unix", help="The cron expression has five fields, without seconds.")
@click.option("--gap", metavar="P", help="A tick within a spring gap: skip, run_after.  [default: skip]")
@click.option(
    "--fold", metavar="P", help="A tick that an autumn change makes twice: both, first, second.  [default: both]"
)
@click.option("--misfire", metavar="P", help="Ticks that were missed: latest, all, skip.  [default: latest]")
@click.option("--grace", type=duration, help="Pass over a tick that is later than this.  [default: 1h]")
@click.option(
    "--overlap", metavar="P", help="While the tick before runs: queue, allow, skip, cancel_running.  [default: queue]"
)
@click.option("--max-retries", type=int, metavar="N", help="Of a tick whose task fails.  [default: 3]")
@click.option("--retry-interval", type=duration, help="Between them.  [default: 1s]")
@click.option("--jitter", type=duration, help="Spread the ticks' tasks over this time.  [default: 0]")
@click.option("--retention", type=duration, help="Keep the record of the ended job so long.  [default: 1d]")
@click.option("--overwrite", is_flag=True, help="Replace a job of this name.")
@frontend_flag
@as_json
def schedule_(
    name: str,
    lambda_name: str,
    schedule: str | None,
    arguments: tuple[str, ...],
    payload: str | None,
    overwrite: bool,
    frontend: str | None,
    as_json: bool,
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
    )

    async def work(stub: api.Frontend) -> j.Job:
        await fit(stub, request.job.task, arguments)
        return await stub.schedule_job(request)

    try:
        made = ask(frontend, work)
    except InvalidArgument as error:  # its second and third line show the place
        print(f"atf: {visible(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    _show(made, as_json)
    return EXIT_OK


@job.command()
@name_argument
@frontend_flag
@as_json
def get(name: str, frontend: str | None, as_json: bool) -> None:
    """Show a job: its next tick, its last one and how that ended, and what was skipped."""
    _show(ask(frontend, lambda stub: stub.get_job(f.GetJobRequest(name=name))), as_json)


@job.command()
@click.argument("prefix", metavar="[PREFIX]", default="")
@click.option("--limit", type=click.IntRange(1), default=_PAGE, show_default=True, help="At most this many.")
@frontend_flag
@as_json
@no_header
def ls(prefix: str, limit: int, frontend: str | None, as_json: bool) -> None:
    """List the jobs whose names begin with PREFIX, or all."""
    jobs = ask(frontend, lambda stub: _list(stub, prefix, limit))
    _print_jobs(jobs, as_json)


def _print_jobs(jobs: list[j.Job], as_json: bool) -> None:
    if as_json:
        print_json([job_json(each) for each in jobs])
        return
    rows = [
        (
            each.spec.name,
            getattr(each.spec.task, "lambda"),
            each.spec.schedule or "once",
            _zone(each.spec),
            "paused" if each.paused else when(each.next_tick_at_us),
            each.ticks,
            _outcome(each),
            each.skipped,
        )
        for each in jobs
    ]
    print_table(["job", "lambda", "schedule", "zone", "next tick", "ticks", "last", "skipped"], rows)


@job.command()
@click.argument("names", metavar="JOB...", nargs=-1)
@click.option("--prefix", metavar="PREFIX", help='All jobs whose names begin so; "*": all.')
@bulk_flags
@frontend_flag
@as_json
@no_header
def rm(
    names: tuple[str, ...], prefix: str | None, dry_run: bool, yes: bool, frontend: str | None, as_json: bool
) -> None:
    """Delete jobs, and cancel their tasks that have not started. What runs goes on, and does not run again."""
    if bool(names) == bool(prefix):
        raise InvalidArgument("name the jobs, or give --prefix, and not both")
    if dry_run:
        _print_jobs(ask(frontend, lambda stub: _named(stub, names, prefix)), as_json)
        return
    if prefix or len(names) > 1:
        which = f"all jobs whose names begin with {prefix}" if prefix and prefix != "*" else "all jobs"
        confirm(one_line(f"Delete {which if prefix else f'{len(names)} jobs'}"), yes=yes)

    async def work(stub: api.Frontend) -> int:
        if prefix:
            return (await stub.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix=prefix))).deleted
        return sum([(await stub.delete_job(f.DeleteJobRequest(name=each))).existed for each in names])

    deleted = ask(frontend, work)
    if as_json:
        print_json({"deleted": deleted})
    else:
        print(f"deleted {deleted} of {len(names)}" if names else f"deleted {deleted}")


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
@frontend_flag
@as_json
def pause(name: str, frontend: str | None, as_json: bool) -> None:
    """Stop the ticks of a job, those that wait as tasks too; what runs goes on."""
    _show(ask(frontend, lambda stub: stub.pause_job(f.PauseJobRequest(name=name))), as_json)


@job.command()
@name_argument
@frontend_flag
@as_json
def resume(name: str, frontend: str | None, as_json: bool) -> None:
    """Let a paused job tick again. Its misfire policy says what becomes of the ticks it has missed; those that were kept as tasks run."""
    _show(ask(frontend, lambda stub: stub.resume_job(f.ResumeJobRequest(name=name))), as_json)


@job.command()
@name_argument
@frontend_flag
@as_json
def run(name: str, frontend: str | None, as_json: bool) -> None:
    """Make a task of a job now, beside its ticks, and print its id."""
    request = f.RunJobNowRequest(name=name, task_id=new_id(SystemRuntime().random))
    reply = ask(frontend, lambda stub: stub.run_job_now(request))
    if as_json:
        print_json({"id": reply.id})
    else:
        print(one_line(reply.id))


def job_json(each: j.Job) -> dict[str, Any]:
    """A job as JSON."""
    spec = each.spec
    return {
        "name": spec.name,
        "lambda": getattr(spec.task, "lambda"),
        "schedule": spec.schedule if spec.HasField("schedule") else None,
        "due_time": spec.due_time if spec.HasField("due_time") else None,
        "ttl": spec.ttl if spec.HasField("ttl") else None,
        "repeats": spec.repeats if spec.HasField("repeats") else None,
        "tz": _zone(spec),
        **_policies(spec),
        "next_tick_at_us": each.next_tick_at_us or None,
        "last_tick_at_us": each.last_tick_at_us or None,
        "last_task_id": each.last_task_id or None,
        "last_status": status_name(each.last_status) if each.last_status else None,
        "ticks": each.ticks,
        "skipped": each.skipped,
        "skipped_why": each.skipped_why,
        "paused": each.paused,
        "generation": each.generation,
        "created_at_us": each.created_at_us,
        "from_code": bool(spec.code),
    }


def _policies(spec: j.JobSpec) -> dict[str, Any]:
    """What happens where something is in the way, with what the maker left open."""
    options = spec.task.options  # retries are as they count: the operator's cap has been at them
    return {
        "format": spec.format or None,
        "gap": spec.gap or Gap.SKIP.value,
        "fold": spec.fold or Fold.BOTH.value,
        "misfire": j.Misfire.Name(spec.misfire or j.LATEST).lower(),
        "grace_us": spec.grace_us if spec.HasField("grace_us") else DEFAULT_GRACE_US,
        "overlap": "skip" if spec.overlap == j.PASS_OVER else j.Overlap.Name(spec.overlap or j.QUEUE).lower(),
        "max_retries": max(0, options.max_attempts - 1),
        "retry_interval_us": options.backoff.base_us,
        "jitter_us": spec.jitter_us,
    }


def _zone(spec: j.JobSpec) -> str:
    """By whose clocks a job ticks: its own field's, what its schedule names, or UTC."""
    try:
        schedule = plan_of(spec).schedule
    except InvalidArgument:  # of a release that knows more
        schedule = None
    return schedule.zone.key if isinstance(schedule, Cron) else spec.tz or "UTC"


def _in_words(spec: j.JobSpec) -> str:
    say = _policies(spec)
    parts = [f"misfire {say['misfire']} within {length(say['grace_us'])}", f"overlap {say['overlap']}"]
    retries = say["max_retries"]
    parts.append(f"{retries} retries, {length(say['retry_interval_us'])} apart" if retries else "no retries")
    if say["jitter_us"]:
        parts.append(f"jitter {length(say['jitter_us'])}")
    parts += [f"{each} {say[each]}" for each in ("gap", "fold") if getattr(spec, each)]
    return "; ".join(parts)


async def _list(stub: api.Frontend, prefix: str, limit: int) -> list[j.Job]:
    return await entries(stub.list_jobs, f.ListJobsRequest(prefix=prefix), lambda page: page.jobs, limit)


def _show(each: j.Job, as_json: bool) -> None:
    if as_json:
        print_json(job_json(each))
        return
    told = [
        ("job", each.spec.name),
        ("lambda", getattr(each.spec.task, "lambda")),
        ("schedule", each.spec.schedule or "once"),
        ("time zone", _zone(each.spec)),
        ("due time", each.spec.due_time),
        ("ttl", each.spec.ttl),
        ("repeats", str(each.spec.repeats) if each.spec.HasField("repeats") else ""),
        ("policies", _in_words(each.spec)),
        (
            "next tick",
            "paused" if each.paused else when(each.next_tick_at_us) if each.next_tick_at_us else "it has ended",
        ),
        (
            "last tick",
            f"{when(each.last_tick_at_us)}, {_outcome(each)}: {each.last_task_id}" if each.last_tick_at_us else "",
        ),
        ("ticks", str(each.ticks)),
        ("skipped", f"{each.skipped}; the newest: {each.skipped_why}" if each.skipped else ""),
    ]
    for label, value in told:
        if value:
            print(one_line(f"{label:<10} {value}"))


def _outcome(each: j.Job) -> str:
    if not each.last_tick_at_us:
        return ""
    return status_name(each.last_status) if each.last_status else "not ended"
