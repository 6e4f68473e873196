"""Runs the HSC's process."""

from __future__ import annotations

import asyncio
from typing import Final

from atf.config.settings import HscSettings, LogSettings, SecuritySettings, StoreSettings, Timing, metrics_address
from atf.process.role import Process, run_role
from atf.process.security import server_security
from atf.rpc.server import serve
from atf.rpc.store_health import of_store

from .role import HscRole

DRAIN_S: Final = 5.0
"""Seconds that calls under way have when the process ends; all of them are short."""


def main(
    settings: HscSettings, store: StoreSettings, timing: Timing, logs: LogSettings, security: SecuritySettings
) -> int:
    """Runs until it is asked to end; returns the exit code."""

    async def body(process: Process) -> None:
        opened = await process.open_store(store, timing)
        role = HscRole(opened, settings, timing, process.runtime)
        secured = server_security(security, settings.listen, opened, process)
        server = await serve(
            settings.listen, role.services, details=of_store(opened), metrics=process.metrics, security=secured
        )
        role.start()
        process.ready(server.address)
        await process.stopping.wait()
        await role.drain()
        # A stop of a whole machine reaches it no later than the executors. What they have not marked as draining by then would count as lost.
        await asyncio.sleep(settings.stop_delay)
        await server.stop(DRAIN_S)
        await role.end()
        await opened.close()

    return run_role("hsc", body, logs, metrics_listen=metrics_address(settings), security=security)
