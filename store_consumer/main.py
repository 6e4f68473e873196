"""The store consumer's process: a health service, and the consumer behind it."""

from __future__ import annotations

import asyncio

from atf.config import LogSettings, StoreConsumerSettings, StoreSettings, Timing
from atf.process import Process, run_role
from atf.rpc.server import serve
from atf.runtime import end

from .consumer import StoreConsumer


def main(settings: StoreConsumerSettings, store: StoreSettings, timing: Timing, logs: LogSettings) -> int:
    """Runs a store consumer until it is asked to end. Returns the exit code."""

    async def body(process: Process) -> None:
        server = await serve(settings.listen, [], serving=False)
        try:
            opened = await process.open_store(store, timing)
            consumer = StoreConsumer(store=opened, settings=settings, timing=timing, runtime=process.runtime)
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

    return run_role("store-consumer", body, logs)
