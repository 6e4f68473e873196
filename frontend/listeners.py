"""Opens all that a frontend listens on: its own API and Dapr's on one gRPC port, and Dapr's HTTP API if it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from atf.config.settings import FrontendSettings
from atf.metrics.metrics import Metrics
from atf.rpc import api, dapr_runtime_pb2 as d, dapr_scheduler_pb2 as s, frontend_pb2 as f
from atf.rpc.health import Detail
from atf.rpc.server import Server, Service, serve
from atf.rpc.server_security import OPEN_TO_ALL, ServerSecurity

from .dapr import runtime
from .dapr.scheduler import SERVICE, SchedulerService
from .service import FrontendService

if TYPE_CHECKING:
    from .dapr.http import HttpPort


@dataclass(frozen=True)
class Listeners:
    """The ports of a frontend."""

    frontend: FrontendService
    scheduler: SchedulerService
    server: Server
    port: HttpPort | None
    dapr_http: str
    """The address of its HTTP port; empty: it has none."""
    grace: float
    """Seconds that calls which run have when it ends."""

    @property
    def address(self) -> str:
        """Of its gRPC port."""
        return self.server.address

    @classmethod
    async def open(
        cls,
        frontend: FrontendService,
        scheduler: SchedulerService,
        settings: FrontendSettings,
        grace: float,
        details: Mapping[str, Detail] | None = None,
        metrics: Metrics | None = None,
        *,
        beside: Sequence[Service] = (),
        security: ServerSecurity = OPEN_TO_ALL,
    ) -> Self:
        """Begins to listen.

        Args:
            frontend: what answers.
            scheduler: what answers to Dapr's sidecars.
            settings: where to listen.
            grace: seconds that calls which run have when it ends.
            details: what health says beside whether it serves, by name.
            metrics: where calls are counted and timed.
            beside: services of other roles of this process, on the same gRPC port.
            security: whom it answers, and how it is encrypted.

        Raises:
            ConfigError: an address can't be listened on.
        """
        own: api.Frontend = frontend
        dapr = runtime.DaprRuntime(own, settings)
        services = [
            Service(f.DESCRIPTOR.services_by_name["Frontend"], own),
            Service(d.DESCRIPTOR.services_by_name["Dapr"], dapr, name=runtime.SERVICE, metadata=True),
            Service(s.DESCRIPTOR.services_by_name["Scheduler"], scheduler, name=SERVICE),
            *beside,
        ]
        server = await serve(settings.listen, services, details=details, metrics=metrics, security=security)
        scheduler.hosts = settings.told_hosts or (server.address,)
        if not settings.dapr_http:
            return cls(frontend, scheduler, server, None, "", grace)
        try:
            from .dapr.http import HttpPort  # here: a third of a frontend's start is to load aiohttp, and few need it

            port = HttpPort(dapr, grace, security)
            return cls(frontend, scheduler, server, port, await port.open(settings.dapr_http), grace)
        except BaseException:
            await server.stop(0)
            raise

    async def close(self) -> None:
        """Says that it is not ready, takes no more calls, and waits for those that run. The store must still be open."""
        await self.server.set_serving(False)
        self.frontend.drain()
        self.scheduler.drain()
        ends = [self.server.stop(self.grace)]
        if self.port is not None:
            self.port.drain()
            ends.append(self.port.stop())
        await asyncio.gather(*ends)
        await self.scheduler.close()
