"""Puts frontend, HSC and store consumer together on one store, one gRPC port and, for the pages, one HTTP port.

The roles are those of processes of their own. They share the store's connections, its coalescers and its notifications. The pages call
the frontend directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from atf.config.settings import RoleSettings, Timing, UiSettings
from atf.frontend.dapr.scheduler import SchedulerService
from atf.frontend.listeners import Listeners
from atf.frontend.service import FrontendService
from atf.hsc.role import HscRole
from atf.rpc import frontend_pb2 as f
from atf.rpc.local_channel import LocalChannel
from atf.rpc.server_security import OPEN_TO_ALL, ServerSecurity
from atf.rpc.store_health import of_store
from atf.rpc.stubs import FrontendStub
from atf.runtime import Runtime
from atf.store.store import Store
from atf.store_consumer.role import StoreConsumerRole

DRAIN_S: Final = 10.0
"""Seconds that calls under way have when the process ends: as long as a call has by default."""


class ServerRoles:
    """Frontend, HSC and store consumer of one process.

    Args:
        store: the task store.
        settings: of each of them.
        timing: how long leases last.
        runtime: clocks, chance and tasks.

    Attributes:
        frontend, hsc, consumer: the roles.
    """

    def __init__(self, store: Store, settings: RoleSettings, timing: Timing, runtime: Runtime) -> None:
        self.frontend = FrontendService(store=store, settings=settings.frontend, runtime=runtime)
        self.hsc = HscRole(store, settings.hsc, timing, runtime)
        self.consumer = StoreConsumerRole(store, settings.consumer, timing, runtime)
        self._scheduler = SchedulerService(frontend=self.frontend, store=store, timing=timing, runtime=runtime)
        self._store, self._settings, self._runtime = store, settings, runtime
        self._listeners: Listeners
        self._security = OPEN_TO_ALL
        self._pages = AsyncExitStack()

    @property
    def address(self) -> str:
        """Of the gRPC port."""
        return self._listeners.address

    @property
    def dapr_http(self) -> str:
        """Of the HTTP port for Dapr's clients; empty: there is none."""
        return self._listeners.dapr_http

    async def start(self, grace: float = DRAIN_S, security: ServerSecurity = OPEN_TO_ALL) -> None:
        """Begins to listen, and what the roles do by themselves.

        Args:
            grace: seconds that calls under way have at the end.
            security: whom it answers, and how it is encrypted.

        Raises:
            ConfigError: an address can't be listened on.
        """
        self._security = security
        self._listeners = await Listeners.open(
            self.frontend,
            self._scheduler,
            self._settings.frontend,
            grace,
            of_store(self._store),
            self._store.metrics,
            beside=[*self.hsc.services, *self.consumer.services],
            security=security,
        )
        self.hsc.start()
        self.consumer.start()

    async def serve_pages(self, settings: UiSettings, serves: Callable[[], bool]) -> str:
        """Serves the pages until the end; gives their host:port.

        Args:
            settings: where.
            serves: whether the process serves now, for /readyz.
        """
        from atf.ui.main import pages  # here: it loads aiohttp and jinja2, which a process without pages can spare

        login = self._security.authenticator is not None
        channel = LocalChannel(f.DESCRIPTOR.services_by_name["Frontend"], self.frontend, self._security.let_in)
        served = pages(FrontendStub(channel), settings, self._runtime, serves, login=login, security=self._security)
        return await self._pages.enter_async_context(served)

    async def end(self) -> None:
        """Takes no more calls, waits for those under way, and ends the roles' own duties. The store must still be open."""
        await self.hsc.drain()
        await asyncio.gather(self._pages.aclose(), self._listeners.close())
        await self.hsc.end()
        await self.consumer.end()
