"""Runs the store consumer's process: a health service, and the consumer behind it."""

from __future__ import annotations

from typing import Final

from atf.config.settings import (
    LogSettings,
    SecuritySettings,
    StoreConsumerSettings,
    StoreSettings,
    Timing,
    metrics_address,
)
from atf.process.role import Process, run_role
from atf.process.security import server_security
from atf.rpc.server import serve
from atf.rpc.server_security import ServerSecurity
from atf.rpc.server_tls import server_credentials
from atf.rpc.store_health import of_store
from atf.store.store import Store

from .role import StoreConsumerRole

DRAIN_S: Final = 5.0
"""Seconds that a poll under way has when the process ends."""


def main(
    settings: StoreConsumerSettings, store: StoreSettings, timing: Timing, logs: LogSettings, security: SecuritySettings
) -> int:
    """Runs a store consumer until it is asked to end. Returns the exit code."""

    async def opened_role(process: Process) -> tuple[Store, StoreConsumerRole]:
        opened = await process.open_store(store, timing)
        role = StoreConsumerRole(opened, settings, timing, process.runtime)
        process.read_gauges = role.read_gauges
        return opened, role

    async def body(process: Process) -> None:
        if settings.poll_on_request:
            await _poll(process)
            return
        details = of_store(None)
        security.check_listen(settings.listen)
        secured = ServerSecurity(credentials=server_credentials(security))  # of health, which everybody may ask
        server = await serve(
            settings.listen, [], serving=False, details=details, metrics=process.metrics, security=secured
        )
        try:
            opened, role = await opened_role(process)
            server_security(security, settings.listen, opened, process, executors=False)  # who may read its metrics
            details |= of_store(opened)
            role.start()
            await server.set_serving(True)
            process.ready(server.address)
            await role.over(process.stopping)
            await role.end()
            await opened.close()
        finally:
            await server.stop(0.5)

    async def _poll(process: Process) -> None:
        opened, role = await opened_role(process)
        secured = server_security(security, settings.listen, opened, process, executors=False)
        server = await serve(
            settings.listen, role.services, details=of_store(opened), metrics=process.metrics, security=secured
        )
        process.ready(server.address)
        await process.stopping.wait()
        await server.stop(DRAIN_S)
        await opened.close()

    return run_role("store-consumer", body, logs, metrics_listen=metrics_address(settings), security=security)
