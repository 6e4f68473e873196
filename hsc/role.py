"""The HSC of one process: what it answers, and what it does by itself. Whoever runs the process gives it a store and a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from atf.config.settings import HscSettings, Timing
from atf.rpc import api, hsc_pb2 as h
from atf.rpc.server import Service
from atf.runtime import Runtime, end
from atf.store.store import Store

from .service import HscService


class HscRole:
    """The HSC of one process.

    Args:
        store: where claims are.
        settings: its own.
        timing: how long leases last.
        runtime: clocks and tasks.

    Attributes:
        logic: what answers.
        services: what is to be served.
    """

    def __init__(self, store: Store, settings: HscSettings, timing: Timing, runtime: Runtime) -> None:
        self._service = HscService(store=store, timing=timing, settings=settings, runtime=runtime)
        self.logic: api.HSC = self._service
        self.services = [Service(h.DESCRIPTOR.services_by_name["HSC"], self.logic)]
        self._store, self._runtime = store, runtime
        self._duties: Sequence[asyncio.Task[None]] = ()

    def start(self) -> None:
        """Begins what it does by itself."""
        self._duties = [
            self._runtime.spawn(self._store.attend(), name="attend"),
            self._runtime.spawn(self._service.run(), name="claims"),
        ]

    async def drain(self) -> None:
        """Takes no more tasks: who waits for some asks elsewhere."""
        await self._service.drain()

    async def end(self) -> None:
        """Ends that. The store must still be open."""
        await end(self._duties)
