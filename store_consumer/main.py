"""Runs the store consumer's process: a health service, and the consumer behind it."""

from __future__ import annotations

import asyncio
from typing import Final

from atf.config.settings import LogSettings, StoreConsumerSettings, StoreSettings, Timing, metrics_address
from atf.process.role import Process, run_role
from atf.rpc import api, store_consumer_pb2 as s
from atf.rpc.health import of_store
from atf.rpc.server import Service, serve
from atf.runtime import end

from .consumer import Consumer
from .measures import Measures
from .service import PollService

DRAIN_S: Final = 5.0
"""Seconds that a poll under way has when the process ends."""


def main(settings: StoreConsumerSettings, store: StoreSettings, timing: Timing, logs: LogSettings) -> int:
    """Runs a store consumer until it is asked to end. Returns the exit code."""

    async def body(process: Process) -> None:
        if settings.poll_on_request:
            await _poll(process)
            return
        details = of_store(None)
        server = await serve(settings.listen, [], serving=False, details=details, metrics=process.metrics)
        try:
            opened = await process.open_store(store, timing)
            details |= of_store(opened)
            consumer = Consumer(store=opened, settings=settings, timing=timing, runtime=process.runtime)
            process.read_gauges = Measures(opened, process.runtime, lambda: consumer.lag).read
            duty = process.runtime.spawn(consumer.run(), name="store consumer")
            stopping = process.runtime.spawn(process.stopping.wait(), name="stopping")
            await server.set_serving(True)
            process.ready(server.address)
            await asyncio.wait({duty, stopping}, return_when=asyncio.FIRST_COMPLETED)
            # It holds nothing: a pass that is cut off has either happened in the store or not.
            await end([duty])
            await opened.close()
            if not duty.cancelled():
                duty.result()  # raises what ended it
        finally:
            await server.stop(0.5)

    async def _poll(process: Process) -> None:
        opened = await process.open_store(store, timing)
        consumer = Consumer(store=opened, settings=settings, timing=timing, runtime=process.runtime)
        process.read_gauges = Measures(opened, process.runtime, lambda: consumer.lag).read
        logic: api.StoreConsumer = PollService(consumer)
        services = [Service(s.DESCRIPTOR.services_by_name["StoreConsumer"], logic)]
        server = await serve(settings.listen, services, details=of_store(opened), metrics=process.metrics)
        process.ready(server.address)
        await process.stopping.wait()
        await server.stop(DRAIN_S)
        await opened.close()

    return run_role("store-consumer", body, logs, metrics_listen=metrics_address(settings))
