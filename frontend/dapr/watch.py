"""WatchJobs: sends triggers over open streams, and takes what their watchers say of them.

initial         the watcher is entered (watchers.py), and the queues of what it takes are looked into (intake.py)
a trigger       is claimed by this process, sent, and its lease renewed (holding.py) until the watcher acknowledges it
SUCCESS         ends its task
FAILED          fails this attempt; the job's failure policy decides what follows
the stream ends what is not acknowledged is handed back at once, counts nothing, and goes to another watcher, here or elsewhere
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from atf.auth.caller import permit
from atf.auth.grants import Verb
from atf.config.settings import Timing
from atf.errors import InvalidArgument, Unavailable
from atf.log import get_logger
from atf.rpc import dapr_scheduler_pb2 as d
from atf.runtime import Runtime, end, new_id
from atf.store.store import Store
from atf.store.values.claims import Outcome

from .holding import TriggerClaims
from .intake import TriggerIntake
from .watchers import SENT, Watcher, Watchers

LAST_S: Final = 5.0
"""Seconds that watchers have, when the process ends, to acknowledge what they were given."""
FLUSH_S: Final = 2.0
"""Seconds in which, after that, the store must have heard of everything. What it has not ends with its lease."""

_log = get_logger(duty="watch_jobs")


class WatchStreams:
    """The streams of one frontend. Its duties begin with the first of them."""

    def __init__(self, *, store: Store, timing: Timing, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._watchers = Watchers()
        owner = f"dapr-{new_id(runtime.random)}"
        self._holding = TriggerClaims(store=store, timing=timing, runtime=runtime, owner=owner)
        self._intake = TriggerIntake(
            store=store, watchers=self._watchers, holding=self._holding, timing=timing, runtime=runtime
        )
        self._duties: list[asyncio.Task[None]] = []
        self._draining = False
        self._last: asyncio.TimerHandle | None = None

    async def jobs(self, requests: AsyncIterator[d.WatchJobsRequest]) -> AsyncGenerator[d.WatchJobsResponse, None]:
        """One stream.

        Raises:
            InvalidArgument: a message breaks a rule.
            Unavailable: this frontend is ending.
        """
        first = await anext(requests, None)
        if first is None:
            return
        if first.WhichOneof("watch_job_request_type") != "initial":
            raise InvalidArgument("the first message of a stream must be `initial`")
        watcher = Watcher(first.initial)
        permit(Verb.WORK, *sorted(watcher.lambdas))
        if self._draining:
            raise Unavailable("this frontend is ending; watch for jobs at another one")
        self._enter(watcher)
        reading = self._runtime.spawn(self._read(requests, watcher), name="read acknowledgements")
        try:
            while (trigger := await watcher.next()) is not None:
                if self._holding.fresh(trigger):
                    yield trigger.response
                    trigger.response = SENT  # it may be large, and its acknowledgement far off
                elif watcher.taken(trigger.id):  # somebody else may have it by now
                    self._holding.hand_back([trigger])
            if reading.done():
                reading.result()  # raises what was wrong with what it read
        finally:
            self._leave(watcher)
            await end([reading])
            if not reading.cancelled():
                reading.exception()  # seen: where it matters it was raised above

    def drain(self) -> None:
        """Gives nothing more, and has streams end when all is acknowledged, or after LAST_S."""
        self._draining = True
        for each in list(self._watchers.open):
            each.drain()
        self._last = asyncio.get_running_loop().call_later(LAST_S, self._close_streams)

    async def close(self) -> None:
        """Ends everything that is still open, has the store hear of it, and ends the duties."""
        self._draining = True
        if self._last is not None:
            self._last.cancel()
        self._close_streams()
        await self._intake.close()
        await self._holding.close(FLUSH_S)
        await end(self._duties)

    def _close_streams(self) -> None:
        for each in list(self._watchers.open):
            self._leave(each)

    def _enter(self, watcher: Watcher) -> None:
        self._watchers.add(watcher)
        if not self._duties:
            self._duties = [
                self._runtime.spawn(self._holding.run(), name="hold triggers"),
                self._runtime.spawn(self._intake.run(), name="take triggers"),
                self._runtime.spawn(self._store.attend(), name="attend"),
            ]
        self._intake.look(watcher.lambdas)
        _log.info("watcher", lambdas=sorted(watcher.lambdas))

    def _leave(self, watcher: Watcher) -> None:
        if watcher in self._watchers.open:
            self._watchers.remove(watcher)
            left = watcher.close()
            self._holding.hand_back(left)
            _log.info("watcher is gone", lambdas=sorted(watcher.lambdas), handed_back=len(left))

    async def _read(self, requests: AsyncIterator[d.WatchJobsRequest], watcher: Watcher) -> None:
        """Takes acknowledgements until the watcher has nothing more to say, which ends the stream."""
        try:
            async for request in requests:
                if request.WhichOneof("watch_job_request_type") != "result":
                    raise InvalidArgument("after the first message of a stream only `result` follows")
                result = request.result
                trigger = watcher.taken(result.id)
                if trigger is None:
                    _log.warning("an acknowledgement of what was not given to this watcher", id=result.id)
                    continue
                if result.status == d.SUCCESS:
                    self._holding.finish(trigger, Outcome.SUCCEEDED)
                else:
                    self._holding.finish(trigger, Outcome.FAILED, "the watcher reported FAILED")
                self._intake.freed(watcher.lambdas)
        finally:
            self._leave(watcher)
