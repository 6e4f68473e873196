"""Runs the process that serves the pages."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from atf.config.settings import LogSettings, UiSettings
from atf.process.role import Process, run_role
from atf.rpc.channel import open_channel
from atf.rpc.listen_address import free_address
from atf.rpc.stubs import FrontendStub

from .app import make_app
from .probes import add_probes
from .samples import keep_sampling

DRAIN_S: Final = 2.0
"""Seconds that requests under way have when the process ends."""


def main(settings: UiSettings, logs: LogSettings) -> int:
    """Runs until it is asked to end; returns the exit code."""

    async def body(process: Process) -> None:
        host, port = await free_address(settings.listen)
        channel = open_channel(settings.frontend)
        site = make_app(FrontendStub(channel), settings, process.runtime)
        add_probes(site.app, lambda: process.serves)
        runner = web.AppRunner(site.app, access_log=None, handler_cancellation=True, shutdown_timeout=DRAIN_S)
        await runner.setup()
        await web.TCPSite(runner, host.strip("[]"), port).start()
        process.runtime.spawn(keep_sampling(site.samples), name="samples of counts")
        process.ready(f"{host}:{runner.addresses[0][1]}")
        await process.stopping.wait()
        await runner.cleanup()
        await channel.close()

    return run_role("ui", body, logs)
