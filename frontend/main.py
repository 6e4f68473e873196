"""The frontend's process."""

from __future__ import annotations

from typing import Final

from atf.config import FrontendSettings, LogSettings, StoreSettings, Timing
from atf.process import Process, run_role
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.rpc.server import Service, serve

from .service import FrontendService

DRAIN_S: Final = 10.0
"""Seconds that calls under way have when the process ends: as long as a call has by default."""


def main(settings: FrontendSettings, store: StoreSettings, timing: Timing, logs: LogSettings) -> int:
    """Runs until it is asked to end; returns the exit code."""

    async def body(process: Process) -> None:
        opened = await process.open_store(store, timing)
        service = FrontendService(store=opened, settings=settings, runtime=process.runtime)
        logic: api.Frontend = service
        server = await serve(settings.listen, [Service(f.DESCRIPTOR.services_by_name["Frontend"], logic)])
        process.ready(server.address)
        await process.stopping.wait()
        await server.set_serving(False)
        service.drain()
        await server.stop(DRAIN_S)
        await opened.close()

    return run_role("frontend", body, logs)
