"""Asks the controller for work for one lane: one long poll after the other, each acknowledging the answer before it.

While some lambdas come in great numbers, a lane asks for the others in calls of another name; see _Aside in executor.py.

Owns the numbers of its calls and answers. It asks for as many tasks as there is room for in its lane; what another lane has room
for concerns it not. An answer to a call that was given up never gets here, so it is not acknowledged, and the controller
hands its claims back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from atf.calls.retry import Pauses, RetryPolicy, Trouble
from atf.config.settings import Timing
from atf.errors import AtfError, FailedPrecondition
from atf.rpc import controller_pb2 as c
from atf.rpc.api import Controller
from atf.runtime import Runtime
from atf.task import MAX_BATCH, US

WAIT_S: Final = 30.0
"""Seconds that a call waits for work."""
_SLACK_S: Final = 5.0
"""Seconds that an answer may take beyond the wait."""
LEAVE_S: Final = 1.0
"""Seconds that the last call may take."""
_AGAIN: Final = RetryPolicy(first=0.05, most=1.0)


class Fetch:
    """The calls of NextWork of one lane.

    Args:
        executor_id: who asks.
        lane: for which of its lanes.
        lambdas: what to ask for now, of what the lane can run; asked where there is room.
        signatures: the digest of each lambda's signature.
        controller: whom it asks.
        room: how many tasks may be asked for now.
        admit: takes an answer with claims; returns whether any was kept.
        drain: called when the controller is ending.
        timing: how long it takes a lease to last.
        runtime: clocks and chance.
        trouble: says that calls fail; that of all lanes, so that they say it once.
        pool: the worker cluster that the executor belongs to; "": its controller's.

    Attributes:
        asked: how many tasks the open call may bring.
    """

    def __init__(
        self,
        *,
        executor_id: str,
        lane: str,
        lambdas: Callable[[], Sequence[str]],
        signatures: Mapping[str, str],
        controller: Controller,
        room: Callable[[], int],
        admit: Callable[[c.NextWorkReply], bool],
        drain: Callable[[], None],
        timing: Timing,
        runtime: Runtime,
        trouble: Trouble,
        pool: str = "",
    ) -> None:
        self._pool = pool
        self.asked = 0
        self._executor_id = executor_id
        self._lane = lane
        self._lambdas = lambdas
        self._signatures = signatures
        self._controller = controller
        self._room = room
        self._admit = admit
        self._drain = drain
        self._lease_us = timing.heartbeat_timeout_us
        self._runtime = runtime
        self._boot_id = runtime.boot_id()
        self._pauses = Pauses(_AGAIN, runtime)
        self._trouble = trouble
        self._changed = asyncio.Event()
        self._ack = 0
        self._call = 0
        self._names: Sequence[str] = ()
        self._set = 0
        """The number of these names."""
        self._known_set = 0
        """That which the controller knows; 0: none."""

    def look(self) -> None:
        """There may be room now."""
        self._changed.set()

    async def run(self) -> None:
        """Fetches until cancelled, or until the controller is ending.

        Raises:
            FailedPrecondition: the controller is on another host, or gives leases of another length.
        """
        while True:
            self._changed.clear()
            self.asked = min(MAX_BATCH, self._room())
            if self.asked == 0:
                await self._changed.wait()
            elif not await self.once(self._request()):
                return

    async def leave(self) -> None:
        """Says in a last call that no more is wanted. It acknowledges what has arrived, so the controller hands back what has not.

        `run` must have ended.
        """
        if self._call == 0:
            return
        self.asked, self._known_set = 1, 0
        request = self._request()
        request.draining, request.wait_us = True, 0
        with contextlib.suppress(AtfError, TimeoutError):  # it may be gone; then the claims' leases end by themselves
            async with asyncio.timeout(LEAVE_S):
                await self._controller.next_work(request, timeout=LEAVE_S)
        self.asked = 0

    async def once(self, request: c.NextWorkRequest) -> bool:
        """One call. Returns whether to go on."""
        began = self._runtime.monotonic()
        limit = request.wait_us / US + _SLACK_S
        try:
            async with asyncio.timeout(limit):
                reply = await self._controller.next_work(request, timeout=limit)
        except FailedPrecondition:
            raise
        except (AtfError, TimeoutError) as error:
            # What is held goes on meanwhile. Whether to end is not decided here: the guard knows if the controller is gone.
            self._trouble.failed(self._lane, error)
            self.asked = self._known_set = 0
            await asyncio.sleep(self._pauses.next())
            return True
        self._trouble.ended(self._lane)
        self.asked = 0
        self._known_set = reply.set
        if not (reply.set or request.lambdas):
            return True  # the controller was restarted: the next call names them
        if reply.number > self._ack:  # else: none, or a copy of an answer that was taken
            self._ack = reply.number
            if self._admit(reply):
                self._pauses.reset()
            else:
                await asyncio.sleep(self._pauses.next())  # what was handed back may come again at once
        elif not reply.draining and self._runtime.monotonic() - began < request.wait_us / US / 2:
            await asyncio.sleep(self._pauses.next())  # nothing, and at once: not a reason to spin
        if reply.draining:
            self._drain()
        return not reply.draining

    def _request(self) -> c.NextWorkRequest:
        self._call += 1
        lambdas = self._lambdas()
        if lambdas != self._names:
            self._names, self._set = lambdas, self._set + 1
        if self._set == self._known_set:
            lambdas = ()  # of thousands they would be most of what a call costs
        return c.NextWorkRequest(
            executor_id=self._executor_id,
            lane=self._lane,
            ack=self._ack,
            max_tasks=self.asked,
            wait_us=round(WAIT_S * US),
            lambdas=lambdas,
            signatures=[self._signatures[each] for each in lambdas],
            set=self._set,
            boot_id=self._boot_id,
            call=self._call,
            heartbeat_timeout_us=self._lease_us,
            pool=self._pool,
        )
