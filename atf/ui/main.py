"""Runs the process that serves the pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from atf.config.settings import LogSettings, UiSettings
from atf.process.role import Process, run_role
from atf.rpc import api
from atf.rpc.channel import open_channel
from atf.rpc.listen_address import free_address
from atf.rpc.stubs import FrontendStub
from atf.runtime import Runtime, end

from .app import make_app
from .probes import add_probes
from .samples import keep_sampling

DRAIN_S: Final = 2.0
"""Seconds that requests under way have when the process ends."""


def main(settings: UiSettings, logs: LogSettings) -> int:
    """Runs until it is asked to end; returns the exit code."""

    async def body(process: Process) -> None:
        channel = open_channel(settings.frontend)
        try:
            async with pages(FrontendStub(channel), settings, process.runtime, lambda: process.serves) as address:
                process.ready(address)
                await process.stopping.wait()
        finally:
            await channel.close()

    return run_role("ui", body, logs)


@asynccontextmanager
async def pages(
    frontend: api.Frontend, settings: UiSettings, runtime: Runtime, serves: Callable[[], bool]
) -> AsyncIterator[str]:
    """Serves the pages; gives their host:port.

    Args:
        frontend: whose tasks they show.
        settings: where.
        runtime: clocks, spawning.
        serves: whether the process serves now, for /readyz.
    """
    host, port = await free_address(settings.listen)
    site = make_app(frontend, settings, runtime)
    add_probes(site.app, serves)
    runner = web.AppRunner(site.app, access_log=None, handler_cancellation=True, shutdown_timeout=DRAIN_S)
    await runner.setup()
    sampling = runtime.spawn(keep_sampling(site.samples), name="samples of counts")
    try:
        await web.TCPSite(runner, host.strip("[]"), port).start()
        yield f"{host}:{runner.addresses[0][1]}"
    finally:
        await end([sampling])
        await runner.cleanup()
