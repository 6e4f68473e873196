"""Runs the frontend's process."""

from __future__ import annotations

from typing import Final

from atf.config.settings import FrontendSettings, LogSettings, SecuritySettings, StoreSettings, Timing, metrics_address
from atf.process.role import Process, run_role
from atf.process.security import server_security
from atf.rpc.store_health import of_store

from .dapr.scheduler import SchedulerService
from .listeners import Listeners
from .service import FrontendService

DRAIN_S: Final = 10.0
"""Seconds that calls under way have when the process ends: as long as a call has by default."""


def main(
    settings: FrontendSettings, store: StoreSettings, timing: Timing, logs: LogSettings, security: SecuritySettings
) -> int:
    """Runs until it is asked to end; returns the exit code."""

    async def body(process: Process) -> None:
        opened = await process.open_store(store, timing)
        service = FrontendService(store=opened, settings=settings, runtime=process.runtime)
        scheduler = SchedulerService(frontend=service, store=opened, timing=timing, runtime=process.runtime)
        if settings.dapr_http:
            security.check_listen(settings.dapr_http, "dapr_http")
        secured = server_security(security, settings.listen, opened, process)
        listeners = await Listeners.open(
            service, scheduler, settings, DRAIN_S, of_store(opened), process.metrics, security=secured
        )
        process.ready(listeners.address, dapr_http=listeners.dapr_http)
        await process.stopping.wait()
        await listeners.close()
        await opened.close()

    return run_role("frontend", body, logs, metrics_listen=metrics_address(settings), security=security)
