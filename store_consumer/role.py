"""The store consumer of one process: it makes passes by itself, or serves Poll and makes them when it is asked."""

from __future__ import annotations

import asyncio

from atf.config.settings import StoreConsumerSettings, Timing
from atf.rpc import api, store_consumer_pb2 as s
from atf.rpc.server import Service
from atf.runtime import Runtime, end
from atf.store.store import Store

from .consumer import Consumer
from .measures import Measures
from .service import PollService


class StoreConsumerRole:
    """The store consumer of one process.

    Args:
        store: where tasks are.
        settings: its own.
        timing: how long leases last.
        runtime: clocks and tasks.

    Attributes:
        services: what is to be served.
        read_gauges: brings the gauges of the whole store up to date.
        passes: the duty that makes them, once it has started; only a bug ends it. None where they are made on request.
    """

    def __init__(self, store: Store, settings: StoreConsumerSettings, timing: Timing, runtime: Runtime) -> None:
        self._runtime = runtime
        self._by_itself = not settings.poll_on_request
        self._consumer = Consumer(store=store, settings=settings, timing=timing, runtime=runtime)
        self.read_gauges = Measures(store, runtime, lambda: self._consumer.lag).read
        logic: api.StoreConsumer = PollService(self._consumer)
        self.services = [] if self._by_itself else [Service(s.DESCRIPTOR.services_by_name["StoreConsumer"], logic)]
        self.passes: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begins to make passes, unless it makes them on request."""
        if self._by_itself:
            self.passes = {self._runtime.spawn(self._consumer.run(), name="store consumer")}

    async def over(self, stopping: asyncio.Event) -> None:
        """Returns when the process is asked to end, or when a bug has ended the passes."""
        asked = self._runtime.spawn(stopping.wait(), name="stopping")
        await asyncio.wait({asked, *self.passes}, return_when=asyncio.FIRST_COMPLETED)
        await end([asked])

    async def end(self) -> None:
        """Ends the passes, or raises what has ended them. One that is cut off has either happened in the store or not."""
        await end(self.passes)
        for each in self.passes:
            if not each.cancelled():
                each.result()
