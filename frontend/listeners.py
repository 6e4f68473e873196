"""Opens all that a frontend listens on: its own API and Dapr's on one gRPC port, and Dapr's HTTP API if it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from atf.config.settings import FrontendSettings
from atf.rpc import api
from atf.rpc import dapr_runtime_pb2 as d
from atf.rpc import dapr_scheduler_pb2 as s
from atf.rpc import frontend_pb2 as f
from atf.rpc.health import Detail
from atf.rpc.server import Server, Service, serve

from .dapr import runtime
from .dapr.scheduler import SERVICE, SchedulerService
from .service import FrontendService

if TYPE_CHECKING:
    from .dapr.http import HttpPort


class Listeners:
    """The ports of a frontend.

    Attributes:
        address: of its gRPC port.
        dapr_http: of its HTTP port; empty: it has none.
    """

    def __init__(
        self,
        frontend: FrontendService,
        scheduler: SchedulerService,
        server: Server,
        port: HttpPort | None,
        dapr_http: str,
        grace: float,
    ) -> None:
        self.address = server.address
        self.dapr_http = dapr_http
        self._frontend = frontend
        self._scheduler = scheduler
        self._server = server
        self._port = port
        self._grace = grace

    @classmethod
    async def open(
        cls,
        frontend: FrontendService,
        scheduler: SchedulerService,
        settings: FrontendSettings,
        grace: float,
        details: Mapping[str, Detail] | None = None,
    ) -> Self:
        """Begins to listen.

        Args:
            frontend: what answers.
            scheduler: what answers to Dapr's sidecars.
            settings: where to listen.
            grace: seconds that calls which run have when it ends.
            details: what health says beside whether it serves, by name.

        Raises:
            ConfigError: an address can't be listened on.
        """
        own: api.Frontend = frontend
        dapr = runtime.DaprRuntime(own, settings)
        services = [
            Service(f.DESCRIPTOR.services_by_name["Frontend"], own),
            Service(d.DESCRIPTOR.services_by_name["Dapr"], dapr, name=runtime.SERVICE, metadata=True),
            Service(s.DESCRIPTOR.services_by_name["Scheduler"], scheduler, name=SERVICE),
        ]
        server = await serve(settings.listen, services, details=details)
        scheduler.hosts = settings.told_hosts or (server.address,)
        if not settings.dapr_http:
            return cls(frontend, scheduler, server, None, "", grace)
        try:
            from .dapr.http import HttpPort  # here: a third of a frontend's start is to load aiohttp, and few need it

            port = HttpPort(dapr, grace)
            return cls(frontend, scheduler, server, port, await port.open(settings.dapr_http), grace)
        except BaseException:
            await server.stop(0)
            raise

    async def close(self) -> None:
        """Says that it is not ready, takes no more calls, and waits for those that run. The store must still be open."""
        await self._server.set_serving(False)
        self._frontend.drain()
        self._scheduler.drain()
        ends = [self._server.stop(self._grace)]
        if self._port is not None:
            self._port.drain()
            ends.append(self._port.stop())
        await asyncio.gather(*ends)
        await self._scheduler.close()
