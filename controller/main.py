"""Runs the controller's process: serves NextWork to the executors of its host, and keeps executors running."""

from __future__ import annotations

import asyncio
import platform
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from atf.config.settings import (
    ControllerSettings,
    ExecutorSettings,
    LogSettings,
    SecuritySettings,
    Timing,
    metrics_address,
)
from atf.metrics.table import EXECUTOR_STARTS
from atf.process.caller_token import token_of_process
from atf.process.role import Process, run_role
from atf.rpc import controller_pb2 as c
from atf.rpc.caller_limits import CallerLimits
from atf.rpc.channel import open_channel
from atf.rpc.connection import QUICK_OPTIONS
from atf.rpc.health import detail_of
from atf.rpc.server import Server, Service, serve
from atf.rpc.server_security import ServerSecurity
from atf.rpc.stubs import HSCStub
from atf.runtime import Runtime, end, new_id

from .entrance import Entrance
from .guards import GuardProcess, command, start_guard
from .pool import ExecutorPool
from .service import ControllerService
from .setup import check_setup, for_executors, is_secret
from .spares import Spares
from .starts import Starts

MAX_NODE: Final = 64
"""Characters of the host's name by which others know its controller; several on one host differ by their ports."""
LAST_REPORTS_S: Final = 5.0
"""Seconds after its executors' end in which the HSC must have been told the last of it."""


def main(
    settings: ControllerSettings,
    timing: Timing,
    logs: LogSettings,
    security: SecuritySettings,
    apps: Sequence[str] = (),
    executor: ExecutorSettings | None = None,
) -> int:
    """Runs a controller until it is asked to end.

    Args:
        settings: the controller's.
        timing: how long leases last.
        logs: what it says.
        security: what it shows to the HSC, and how channels are made.
        apps: MODULE:APP of the lambdas that its executors run; none: executors are started by hand.
        executor: what its executors are like.

    Returns:
        The exit code.
    """

    own, executor = token_of_process(security), executor or ExecutorSettings()

    async def body(process: Process) -> None:
        check_setup(settings, executor, security, own, process.log)
        hsc = open_channel(settings.hsc, QUICK_OPTIONS)
        entrance = Entrance(HSCStub(hsc), own, process.runtime) if is_secret(own, security) else None
        guarded: set[str] = set()
        size = settings.executors if apps else 0
        starts = Starts(size, settings.start_retries)
        service = ControllerService(
            hsc=HSCStub(hsc),
            settings=settings,
            timing=timing,
            runtime=process.runtime,
            host=host_name(settings.listen, process.runtime),
            guarded=guarded,
            starts=starts,
            metrics=process.metrics,
            entrance=entrance,
        )
        limits = CallerLimits(security, process.metrics)
        answered = ServerSecurity(limits=limits)
        if entrance is not None:
            answered = ServerSecurity(entrance, check_method=entrance.check_method, limits=limits)
        server = await serve(
            settings.listen,
            [Service(c.DESCRIPTOR.services_by_name["Controller"], service)],
            serving=not starts.why_not,
            details={"executors": detail_of(lambda: starts.why_not), "hsc": detail_of(lambda: service.state.why_away)},
            metrics=process.metrics,
            security=answered,
        )
        line = command(apps, server.address, settings, executor, timing, logs, for_executors(security, own))

        def start(on_line: Callable[[str], None], stands_by: bool) -> Awaitable[GuardProcess]:
            secret = "" if entrance is None else entrance.new_secret()
            return start_guard([*line, "--stand-by"] if stands_by else line, on_line, process.runtime, secret)

        spares = Spares(settings.spares if size else 0, start, process.runtime)
        pool = ExecutorPool(
            start=spares.start,
            size=size,
            on_death=service.executor_died,
            runtime=process.runtime,
            guarded=guarded,
            starts=starts,
            on_start=process.metrics.counter(EXECUTOR_STARTS, settings.pool).inc,
        )

        service.state.on_drain = pool.hold

        def end_at_once() -> bool:
            pool.end_at_once()
            return True  # what the executors held is reported before this process ends

        process.at_once = end_at_once
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, pool.replace)
        duty = process.runtime.spawn(service.run(), name="controller")
        executors = process.runtime.spawn(pool.run(), name="executors")
        standing_by = process.runtime.spawn(spares.run(), name="spares")
        stopping = process.runtime.spawn(process.stopping.wait(), name="stopping")
        follow = _follower(server, starts, process)
        starts.changed.append(follow)
        follow()
        await asyncio.wait({duty, stopping, executors}, return_when=asyncio.FIRST_COMPLETED)
        pool.drain()
        await end([standing_by])
        await asyncio.gather(service.drain(), asyncio.wait({executors}), spares.ended())
        await service.flush(LAST_REPORTS_S)
        await end([duty])
        if starts.failure:
            await service.state.say()  # what stays known after this process
        await server.stop(0.5)
        await hsc.close()
        if not duty.cancelled():
            duty.result()  # raises what ended it
        executors.result()  # raises that none can start

    return run_role("controller", body, logs, metrics_listen=metrics_address(settings), security=security)


def _follower(server: Server, starts: Starts, process: Process) -> Callable[[], None]:
    """Has the health of the whole say whether executors work here; and says that the role is ready once they do."""
    ready = False

    def follow() -> None:
        nonlocal ready
        process.runtime.spawn(server.set_serving(not starts.why_not), name="health")
        if not ready and not starts.why_not:
            ready = True
            process.ready(server.address)

    return follow


def host_name(listen: str, runtime: Runtime) -> str:
    """By what name others know the controller that listens there: the same after a restart, unless its port is chosen anew each time."""
    port = listen.rpartition(":")[2]
    return f"{platform.node()[:MAX_NODE]}:{port if port != '0' else new_id(runtime.random, 32)}"
