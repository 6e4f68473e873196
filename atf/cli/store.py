"""`atf store export|import|timing|direct`: finds the store, opens it, shows how far it is. What a file holds is atf/store/backup/exporting.py's matter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from atf.config.settings import StoreSettings, Timing, setting
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.errors import ConfigError, InvalidArgument
from atf.runtime import SystemRuntime
from atf.store.backup.export_files import Contents, contents_of, header_of
from atf.store.backup.exporting import Progress, export_tasks
from atf.store.backup.importing import Imported, MayHaveRun, import_tasks
from atf.store.store import Store
from atf.task import US

from .confirmation import confirm, require_terminal
from .files import check_free, overwrite_flag
from .options import as_json, bulk_flags, kept, option, read, refuse_unused, settings_flags
from .output import show, when

R = TypeVar("R")
_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, kw_only=True)
class StoreFlags:
    """Which store is meant."""

    redis_url: str = setting("", "a running Redis or Valkey; empty: the embedded store of --data-dir", secret=True)
    data_dir: str = setting(".atf", "data directory of an `atf up`, whether it runs or not")
    store_bin: str = setting("", "the server to run for it if no `atf up` does; empty: look for one")
    partitions: int = setting(0, "partitions of the store's keys; 0: what it has on record")


@click.group()
def store() -> None:
    """Move live tasks between a task store and a file: for a backup, another store, another number of partitions.

    And show or change how long its leases last, and whether clients may be their own frontend.
    """


@store.command("export")
@click.argument("file", type=_FILE)
@settings_flags(StoreFlags)
@overwrite_flag("FILE")
@as_json
def export_command(file: Path, overwrite: bool, **flags: Any) -> None:
    """Write every task that has not finished to FILE.

    An export that was interrupted goes on where it stopped when it is given the same file; one that is complete is replaced only with
    --overwrite. Tasks that run meanwhile are written as due, and run again after an import: pause their lambdas first where that matters.
    """
    if file.exists() and not file.is_file():
        raise InvalidArgument(f"{file} is no ordinary file, and an export needs one: it goes on where it stopped")
    count = _with_store(flags, lambda opened, progress: export_tasks(opened, file, progress, overwrite=overwrite))
    show({"file": str(file), "tasks": count}, f"{count} tasks in {file}")


@store.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@settings_flags(StoreFlags)
@option("--ran", "LIST", "Write a JSON line to LIST for each task that may have run since the export.", _FILE)
@overwrite_flag("LIST")
@option(
    "--old-redis-url",
    "URL",
    "The store that was exported, if it still answers: what has ended there is left out.",
    default="",
)
@click.option(
    "--all-stopped", is_flag=True, help="No executor runs any of these tasks: let them start at once, without a pause."
)
@bulk_flags
@as_json
def import_command(
    file: Path, ran: Path | None, overwrite: bool, old_redis_url: str, all_stopped: bool, dry_run: bool, **flags: Any
) -> None:
    """Store every task of FILE that is not there yet, and say which may have run since the export.

    An import that was interrupted may simply be run again. With --overwrite, LIST is then written anew, for every task of FILE. After an
    import no task starts for one heartbeat_timeout: by then executors that still run some of them have ended.
    """
    refuse_unused({"overwrite": overwrite}, ("overwrite",) if ran is None else (), "without --ran")
    if ran is not None:
        check_free(ran, overwrite=overwrite)
    if dry_run:
        _show_contents(file, contents_of(file))
        return
    require_terminal()
    if not kept("yes"):
        inside = contents_of(file)
        confirm(f"Store {inside.tasks} tasks and {inside.jobs} jobs of {file}")

    async def work(opened: Store, progress: Progress) -> Imported:
        async with _old_store(old_redis_url, file) as old:
            # Unbuffered: a task is stored before it is reported, and may run before an import that is cut off is run again.
            with nullcontext() if ran is None else ran.open("wb" if overwrite else "ab", buffering=0) as listed:

                def report(suspect: MayHaveRun) -> None:
                    if listed is not None:
                        listed.write(_line(suspect))

                return await import_tasks(opened, file, progress, report=report, old=old, pause_claims=not all_stopped)

    _show_imported(file, ran, _with_store(flags, work, create=True))


def _show_imported(file: Path, ran: Path | None, done: Imported) -> None:
    value = {
        "file": str(file),
        "jobs": done.jobs,
        "stored": done.stored,
        "present": done.present,
        "ended": done.ended,
        "may_have_run": done.may_have_run,
        "exported_at_us": done.begun_us,
        "tasks_start_at_us": done.claims_from_us,
    }
    lines = [f"{done.stored} tasks stored, {done.present} were there before"]
    if done.jobs:
        lines.append(f"{done.jobs} jobs stored")
    if done.ended:
        lines.append(f"{done.ended} have ended in the old store since, and were left out")
    if done.may_have_run:
        since = f"since the export of {when(done.begun_us)}"
        lines.append(f"{done.may_have_run} may have run {since}, and run again{f'; see {ran}' if ran else ''}")
    if done.stored and done.claims_from_us:
        lines.append(f"tasks start from {when(done.claims_from_us)} on, when no executor can hold one of them any more")
    show(value, *lines)


def _show_contents(file: Path, inside: Contents) -> None:
    counts = f"{inside.tasks} tasks and {inside.jobs} jobs, exported at {when(inside.begun_us)}"
    show(
        {
            "file": str(file),
            "dry_run": True,
            "tasks": inside.tasks,
            "jobs": inside.jobs,
            "exported_at_us": inside.begun_us,
        },
        f"{file}: {counts}; those that the store does not have would be stored",
    )


def _line(suspect: MayHaveRun) -> bytes:
    """A task as a line of the list that --ran names."""
    what = {"id": suspect.id, "lambda": suspect.lambda_name, "ran": suspect.ran, "why": suspect.why}
    status = suspect.status.name if suspect.status else None
    shown = {**what, "due_at_us": suspect.due_at_us, "runs": suspect.runs, "status": status}
    return msgspec.json.encode(shown) + b"\n"


@asynccontextmanager
async def _old_store(url: str, file: Path) -> AsyncIterator[Store | None]:
    """The store that was exported to `file`, where it is named; it has the partitions that the file says, whatever the new one has."""
    if not url:
        yield None
        return
    settings = replace(read(StoreSettings, {}), redis_url=url, partitions=header_of(file).partitions)
    async with _opened(settings) as old:
        yield old


@asynccontextmanager
async def _opened(settings: StoreSettings) -> AsyncIterator[Store]:
    opened = await Store.open(settings, read(Timing, {}), SystemRuntime(), agree=False)
    try:
        yield opened
    finally:
        await opened.close()


@store.command("timing")
@settings_flags(StoreFlags)
@option("--set", "X", "The heartbeat_timeout that all roles shall have, in seconds.", float, name="seconds")
@click.option("--all-stopped", is_flag=True, help="With a shorter one: no role and no executor runs.")
@as_json
def timing_command(seconds: float | None, all_stopped: bool, **flags: Any) -> None:
    """Show or change the heartbeat_timeout that the store's roles have agreed on.

    The first role puts its own on record; one with another value does not start. To change it, change it here, then in the
    settings of every role, and start them anew: the HSCs first, then the controllers and executors, then the others. What
    runs goes on meanwhile. For a shorter one all roles and executors must have been stopped before.
    """
    if all_stopped and seconds is None:
        raise InvalidArgument("--all-stopped: of no use without --set; give both, or neither")
    wanted = None if seconds is None else replace(read(Timing, {}), heartbeat_timeout=seconds).heartbeat_timeout_us

    async def work(opened: Store, _progress: Progress) -> int:
        if wanted is not None and wanted < opened.heartbeat_timeout_us and not all_stopped:
            raise InvalidArgument(
                f"heartbeat_timeout is {opened.heartbeat_timeout_us / US:g} s; for a shorter one stop all roles and executors, wait"
                " so long, and say so with --all-stopped: an executor that runs on could be overtaken"
            )
        if wanted is not None:
            await opened.retime(wanted)
        return opened.heartbeat_timeout_us

    timeout_us = _with_store(flags, work)
    lines = [f"heartbeat_timeout = {timeout_us / US:g} s"]
    if wanted is not None:
        then = "start them anew: HSCs, controllers, executors, then the others"
        lines.append(f"set it for every role (ATF_HEARTBEAT_TIMEOUT), and {then}")
    show({"heartbeat_timeout_us": timeout_us}, *lines)


@store.command("direct")
@settings_flags(StoreFlags)
@click.option("--allow/--refuse", "allowed", default=None, help="Let clients be their own frontend, or no more.")
@as_json
def direct_command(allowed: bool | None, **flags: Any) -> None:
    """Show or change whether the store takes direct clients: those that are given its address in place of a frontend's.

    At first it takes none. A client looks when it opens the store; one that is open goes on. This keeps programs from going past the
    frontends by mistake. It keeps nobody out who has the store's password: only the store's own access control does (atf doctor --acl).
    """

    async def work(opened: Store, _progress: Progress) -> bool:
        if allowed is not None:
            await opened.allow_direct(allowed)
        return await opened.direct_allowed()

    takes = _with_store(flags, work)
    show({"direct": takes}, f"direct clients are {'allowed' if takes else 'refused'}")


def _with_store(flags: dict[str, Any], work: Callable[[Store, Progress], Awaitable[R]], *, create: bool = False) -> R:
    where = read(StoreFlags, flags)
    refuse_unused(flags, ("data_dir", "store_bin") if where.redis_url else (), "with --redis-url")
    settings = read(StoreSettings, {"redis_url": where.redis_url or None, "partitions": where.partitions or None})
    if not create and not where.redis_url and not Path(where.data_dir, "store").exists():
        raise ConfigError(f"no task store in {where.data_dir}: give --redis-url, or the --data-dir of an `atf up`")

    async def run() -> R:
        async with _address(where) as (url, partitions):
            chosen = replace(settings, redis_url=url, partitions=partitions or settings.partitions)
            async with _opened(chosen) as opened:
                try:
                    return await work(opened, _show_progress)
                except OSError as error:
                    raise InvalidArgument(f"{error.filename}: {error.strerror}") from error
                finally:
                    if sys.stderr.isatty():
                        print(file=sys.stderr)

    return asyncio.run(run())


@asynccontextmanager
async def _address(where: StoreFlags) -> AsyncIterator[tuple[str, int]]:
    """URL and partitions (0: as set) of the store that is meant; runs the embedded one if nobody else does."""
    if where.redis_url:
        yield where.redis_url, where.partitions
        return
    data = DataDir(Path(where.data_dir))
    if (running := data.announced()) is not None:
        yield running["redis_url"], running["partitions"]
        return
    data.lock()
    try:
        async with EmbeddedStore(find_binary(where.store_bin), data) as embedded:
            yield embedded.url, where.partitions
    finally:
        data.release()


def _show_progress(tasks: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{tasks} tasks", end="", file=sys.stderr, flush=True)
