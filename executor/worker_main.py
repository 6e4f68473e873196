"""Runs the worker's process: user code, gRPC, the executor's loop, and the heartbeats' thread. Started by the guard, never by hand.

python -P -m atf.executor.worker_main EXECUTOR_ID TABLE_FD LIFELINE_FD NOTES_FD SECRET_FD MODULE:APP...

SECRET_FD carries what the executor shows to Enter; `-`: it shows nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading  # noqa: TID251  heartbeats have a thread of their own
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from atf.builtin import with_builtins
from atf.client.fork import FORK_GUARD
from atf.client.own_frontend import refuse_direct
from atf.config.loading import load
from atf.config.settings import ExecutorSettings, LogSettings, SecuritySettings, Timing
from atf.exits import EXIT_NO_HEARTBEAT
from atf.log import get_logger, leave_structlog
from atf.process.caller_token import token_of_process
from atf.process.forks import FORK_SUPPORT
from atf.process.hidden import hide_memory
from atf.process.role import Process, StoppedEarly, run_role
from atf.process.streams import exit_at_once, protect
from atf.rpc.caller_security import own, use
from atf.rpc.channel import StreamingChannel, open_blocking_channel, open_channel
from atf.rpc.stubs import ControllerStub, HSCStub
from atf.sdk.app import App
from atf.sdk.lambdas import Lambda
from atf.sdk.loading import load_apps, load_lambdas

from .credential import OnThisHost, OwnCredential
from .executor import Executor
from .guarding.group import die_with_parent
from .guarding.stand_by import wait_for_word
from .guarding.start_notes import StartNotes
from .heartbeat import Heartbeats
from .held import HeldTask
from .isolation.runs import IsolatedRuns
from .output import capture as output
from .output.log_handlers import take_logging
from .registration import register
from .table import Stage, Table
from .worker_hooks import WorkerHooks, run_apart
from .workers import ThreadAndLoopWorkers

_LAST_BEAT_S: Final = 2.0
"""Seconds that the heartbeats' thread has to end in."""
_LAST_WORDS_S: Final = 2.0
"""Seconds that what lambdas registered with atexit has to end in."""
_NONE: Final = "-"
"""In the place of a descriptor."""
_NO_CHILDREN: Final = (
    "this process was forked by a lambda, and can't make calls: make them in the lambda itself, or start the process anew,"
    " by subprocess or multiprocessing.get_context('spawn')"
)


def main(arguments: Sequence[str]) -> int:
    """Runs until drained; returns the exit code."""
    die_with_parent()
    executor_id, memory, lifeline, notes_fd, secret_fd, *apps = arguments
    credential = _credential(executor_id, secret_fd)
    for descriptor in (int(memory), int(lifeline), int(notes_fd)):
        os.set_inheritable(descriptor, False)  # not for what lambdas start
    os.environ.pop(FORK_SUPPORT, None)  # gRPC, loaded by now, has read it; it is not for what lambdas start either
    FORK_GUARD.refuse_children(_NO_CHILDREN)
    refuse_direct()
    settings, timing, logs = _settings(), load(Timing), load(LogSettings)
    folder, table, notes = Path.cwd(), Table.mapped(int(memory)), StartNotes(int(notes_fd))
    lambdas: dict[str, Lambda[..., Any]] = {}
    loaded: list[App] = []

    def imports() -> None:
        wait_for_word()
        notes.watch(settings.start_timeout)
        notes.doing(f"importing {' '.join(apps)}")
        with _noted(notes):
            output.capture()
            leave_structlog()
            lambdas.update(with_builtins(load_lambdas(apps), settings))
            loaded.extend(load_apps(apps))
            take_logging()

    async def body(process: Process) -> int:
        _hold(int(lifeline), process)
        with _noted(notes):
            notes.imported()
            isolated = await IsolatedRuns.start(
                apps, lambdas, folder, notes, credential.share() if credential else None
            )
            table.stage = Stage.JOINS
            await _enter(credential, settings, process, notes)
            workers = ThreadAndLoopWorkers(settings.threads, settings.async_tasks)
            hooks = WorkerHooks(loaded, run_apart(workers.turn))
            await hooks.start(notes.doing)
            notes.doing(f"registering its lambdas with the frontend at {settings.frontend}")
            try:
                await register(lambdas, settings, process)
            except BaseException:
                await hooks.stop(settings.drain_timeout)
                raise
            table.stage = Stage.WORKS
            try:
                return await _work(
                    executor_id, lambdas, workers, hooks, table, isolated, credential, settings, timing, process
                )
            finally:
                process.ignore_signals()

    code = run_role("executor", body, logs, first=imports, told=lambda: notes.told)
    output.end()
    if code:
        die(code)  # a body may still run, and nothing can stop its thread
    insist = threading.Timer(_LAST_WORDS_S, die, (code,))
    insist.daemon = True  # the interpreter waits for every other thread, such as one that a lambda has left
    insist.start()
    return code


@contextlib.contextmanager
def _noted(notes: StartNotes) -> Iterator[None]:
    """Has the guard know which error ended this worker."""
    try:
        yield
    except StoppedEarly:
        raise
    except Exception as error:
        notes.failed(error)
        raise


def die(code: int) -> NoReturn:
    """Ends the process at once, whatever its threads do."""
    output.end()
    for stream in (sys.stdout, sys.stderr):  # a lambda may have put anything in their places
        with contextlib.suppress(Exception):
            stream.flush()
    exit_at_once(code)


def _settings() -> ExecutorSettings:
    """What holds for this process; lambdas that schedule, and isolated runs, learn of its keys by its environment."""
    settings = load(ExecutorSettings)
    os.environ["ATF_CODEC_KEYS"] = settings.codec_keys
    return settings


def _credential(executor_id: str, secret_fd: str) -> OwnCredential | None:
    """What this process shows from now on, its lambdas too; None: nothing, or what its environment says."""
    tls = token_of_process(replace(load(SecuritySettings), token_file=""))
    if secret_fd == _NONE:
        return None
    with os.fdopen(int(secret_fd), "rb") as pipe:
        credential = OwnCredential(executor_id, pipe.read().decode(), tls)
    hide_memory()  # what proves its claims is here, and lambdas of other executors may run as the same user
    use(credential.code)
    return credential


def _to_controller(settings: ExecutorSettings, credential: OwnCredential | None) -> StreamingChannel:
    return open_channel(settings.controller, security=OnThisHost(credential or own()))


async def _enter(
    credential: OwnCredential | None, settings: ExecutorSettings, process: Process, notes: StartNotes
) -> None:
    if credential is None:
        return
    channel, where = _to_controller(settings, credential), f"the controller at {settings.controller}"
    controller = ControllerStub(channel)
    notes.doing(f"entering {where}")
    await process.retry_until_available(lambda: credential.enter(controller), where)
    await channel.close()


async def _work(
    executor_id: str,
    lambdas: Mapping[str, Lambda[..., Any]],
    workers: ThreadAndLoopWorkers,
    hooks: WorkerHooks,
    table: Table,
    isolated: IsolatedRuns | None,
    credential: OwnCredential | None,
    settings: ExecutorSettings,
    timing: Timing,
    process: Process,
) -> int:
    channels = [_to_controller(settings, credential), open_channel(settings.hsc, security=credential)]
    controller = ControllerStub(channels[0])
    executor = Executor(
        executor_id=executor_id,
        lambdas=lambdas,
        controller=controller,
        hsc=HSCStub(channels[1]),
        workers=workers,
        table=table,
        settings=settings,
        timing=timing,
        runtime=process.runtime,
        isolated=isolated,
        drains=partial(_drains, isolated),
        stop_hooks=hooks.stop,
    )
    loop = asyncio.get_running_loop()

    def heard(lost: list[HeldTask], cancelled: list[HeldTask]) -> None:
        if not loop.is_closed():  # else this process is about to end
            loop.call_soon_threadsafe(executor.heard, lost, cancelled)

    hsc = HSCStub(open_blocking_channel(settings.hsc, security=credential))
    heartbeats = executor.heartbeats(hsc, partial(_end_without_leases, executor), heard)
    process.at_once = partial(_cut, executor)
    thread = threading.Thread(target=_beat, args=(heartbeats,), name="heartbeats", daemon=True)
    thread.start()
    if isolated is not None:
        isolated.listen(gone=executor.drain)
    process.ready()
    draining = process.runtime.spawn(_drain(executor, process), name="drain")
    if credential is not None:
        process.runtime.spawn(credential.keep(controller, process.runtime, executor.drain), name="credential")
    code = await executor.run()
    draining.cancel()
    if code == 0:
        if isolated is not None:
            isolated.close()
        heartbeats.stop()
        thread.join(_LAST_BEAT_S)
        for channel in channels:
            await channel.close()
    return code


def _drains(isolated: IsolatedRuns | None) -> None:
    """A drain has begun: tells the lambdas in processes of their own, and has the guard look at the table now."""
    if isolated is not None:
        isolated.drain()
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it is dead, and this process is about to be
        os.kill(os.getppid(), signal.SIGCHLD)


def _cut(executor: Executor) -> bool:
    """Asked twice to end: what runs is cut by that, and counts nothing."""
    executor.ledger.cut()
    return False


async def _drain(executor: Executor, process: Process) -> None:
    await process.stopping.wait()
    executor.drain()


def _hold(lifeline: int, process: Process) -> None:
    """Drains when the guard lets go of the pipe; or is dead, where the kernel can't say so."""
    loop = asyncio.get_running_loop()

    def ended() -> None:
        if not os.read(lifeline, 1):
            loop.remove_reader(lifeline)
            process.stop("the guard has ended, or asks for it")

    loop.add_reader(lifeline, ended)


def _end_without_leases(executor: Executor, code: int, why: str) -> NoReturn:
    """Ends the process, whose heartbeats fail. In a drain that is part of the stop: the HSC may be ending as well."""
    if executor.ledger.draining.is_set():
        executor.ledger.cut()
    _end(code, why)


def _beat(heartbeats: Heartbeats) -> None:
    try:
        asyncio.run(heartbeats.run())
    except BaseException as error:  # noqa: BLE001  without heartbeats nothing may go on
        _end(EXIT_NO_HEARTBEAT, f"heartbeats ended by a bug: {error!r}")


def _end(code: int, why: str) -> NoReturn:
    get_logger(duty="heartbeat").error("ending at once", why=why, code=code)
    die(code)


if __name__ == "__main__":
    protect()
    sys.exit(main(sys.argv[1:]))
