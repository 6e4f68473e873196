"""Runs the process of `atf server`."""

from __future__ import annotations

import asyncio
from typing import Final

from atf.config.settings import (
    LogSettings,
    RoleSettings,
    SecuritySettings,
    ServerSettings,
    StoreSettings,
    Timing,
    UiSettings,
    metrics_address,
)
from atf.process.role import Process, run_role
from atf.process.security import server_security

from .roles import ServerRoles

PARTS: Final = ("frontend", "hsc", "store-consumer")
"""The roles that this process is, for the cluster and in its metrics."""


def main(
    settings: ServerSettings,
    roles: RoleSettings,
    ui: UiSettings | None,
    store: StoreSettings,
    timing: Timing,
    logs: LogSettings,
    security: SecuritySettings,
) -> int:
    """Runs until it is asked to end.

    Args:
        settings: where it listens.
        roles: of each role.
        ui: of the pages; None: they are not served.
        store: where the task store is.
        timing: how long leases last.
        logs: what it says.
        security: whom it answers, and how it is encrypted.

    Returns:
        The exit code.

    Raises:
        ConfigError: other machines would reach the pages, and they have not TLS and tokens.
    """
    if ui is not None:
        security.check_pages(ui.listen, "ui_listen")

    async def body(process: Process) -> None:
        opened = await process.open_store(store, timing)
        here = ServerRoles(opened, roles, timing, process.runtime)
        process.read_gauges = here.consumer.read_gauges
        if roles.frontend.dapr_http:
            security.check_listen(roles.frontend.dapr_http, "dapr_http")
        await here.start(security=server_security(security, settings.listen, opened, process))
        try:
            pages = await here.serve_pages(ui, lambda: process.serves) if ui is not None else ""
            process.ready(here.address, ui=pages, dapr_http=here.dapr_http)
            await here.consumer.over(process.stopping)
            # As an HSC does: the executors of this machine, which are asked to end at the same time, have to tell it so.
            await asyncio.sleep(roles.hsc.stop_delay)
        finally:
            await here.end()
            await opened.close()

    return run_role("server", body, logs, parts=PARTS, metrics_listen=metrics_address(settings), security=security)
