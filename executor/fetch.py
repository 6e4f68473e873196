"""Asks the controller for work: one long poll after the other, each acknowledging the answer before it.

Owns the numbers of its calls and answers, and their nonces; how much to ask for, and what to do with an answer, is the pipeline's. What is claimed for
a call bears its nonce. An answer to a call that broke, or was given up, never gets here: then its nonce is given up at the HSC (given_up.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from atf.calls.retry import Pauses, RetryPolicy, Trouble
from atf.errors import AtfError, FailedPrecondition, Unauthenticated
from atf.rpc import controller_pb2 as c
from atf.rpc.api import Controller
from atf.runtime import Runtime, new_id
from atf.task import US

from .given_up import GivenUp

WAIT_S: Final = 60.0
"""Seconds that a call waits for work."""
_SLACK_S: Final = 5.0
"""Seconds that an answer may take beyond the wait."""
LEAVE_S: Final = 1.0
"""Seconds that the last call may take."""
_NONCE_BITS: Final = 64
"""Of a call's nonce: nobody guesses it, and with a task's counter it is told apart, of one task."""
_AGAIN: Final = RetryPolicy(first=0.05, most=1.0)


@dataclass(frozen=True, slots=True)
class Asker:
    """What all calls of an executor have in common."""

    executor_id: str
    signatures: Mapping[str, str]
    """The digest of each lambda's signature."""
    controller: Controller
    lease_us: int
    runtime: Runtime
    trouble: Trouble
    """Says that calls fail, once for all of them."""
    given_up: GivenUp
    """Takes the nonces of calls that brought no answer."""
    pool: str = ""
    """The worker cluster that the executor belongs to; "": its controller's."""


class Fetch:
    """One call stream of an executor.

    Args:
        asker: who asks.
        stream: its name.
        lambdas: what they may ask for.
        is_async: whether those are of the `async def` kind.
        low_volume: whether it asks only for lambdas that don't come in great numbers just now, so that they don't wait for those that do: an
            ordinary call brings many of these, and until its answer has come there is no other one for the rest.

    Attributes:
        asked: how many tasks the open call may bring.
        pauses: how long to wait after what has failed.
    """

    def __init__(
        self, asker: Asker, stream: str, lambdas: Sequence[str], *, is_async: bool, low_volume: bool = False
    ) -> None:
        self.lambdas, self.is_async, self.low_volume = lambdas, is_async, low_volume
        self.asked = 0
        self.pauses = Pauses(_AGAIN, asker.runtime)
        self._asker, self._stream = asker, stream
        self._boot_id = asker.runtime.boot_id()
        self._ack = 0
        self._call = 0
        self._names: Sequence[str] = ()
        self._set = 0
        """The number of these names."""
        self._known_set = 0
        """That which the controller knows; 0: none."""

    async def next(self, lambdas: Sequence[str], most: int) -> c.NextWorkReply | None:
        """One call: asks for at most so many tasks of these lambdas. Returns an answer with new claims, or which says that the controller drains.

        Raises:
            FailedPrecondition: the controller is on another host, or gives leases of another length.
            Unauthenticated: the controller does not know this executor, or not any more.
        """
        request = self._request(lambdas, most)
        began, limit = self._asker.runtime.monotonic(), WAIT_S + _SLACK_S
        try:
            async with asyncio.timeout(limit):
                reply = await self._asker.controller.next_work(request, timeout=limit)
        except (FailedPrecondition, Unauthenticated):
            raise
        except asyncio.CancelledError:
            self._asker.given_up.add(request.nonce)
            raise
        except (AtfError, TimeoutError) as error:
            # What is held goes on meanwhile. Whether to end is not decided here: the guard knows if the controller is gone.
            self._asker.given_up.add(request.nonce)
            self._asker.trouble.failed(self._stream, error)
            self.asked = self._known_set = 0
            await self.pause()
            return None
        self._asker.trouble.ended(self._stream)
        self.asked = 0
        self._known_set = reply.set
        if not (reply.set or request.lambdas):
            return None  # the controller was restarted: the next call names them
        if reply.number > self._ack:
            self._ack = reply.number
            return reply
        if reply.draining:
            return c.NextWorkReply(draining=True)  # its claims, if any, are a copy of an answer that was taken
        if self._asker.runtime.monotonic() - began < WAIT_S / 2:
            await self.pause()  # nothing, and at once: not a reason to spin
        return None

    async def pause(self) -> None:
        """Waits, longer each time until `pauses` is reset."""
        await asyncio.sleep(self.pauses.next())

    async def leave(self) -> None:
        """Says in a last call that no more is wanted, and acknowledges what has arrived.

        No other call may be open.
        """
        if self._call == 0:
            return
        self._known_set = 0
        request = self._request(self._names, 1)
        request.draining, request.wait_us = True, 0
        with contextlib.suppress(AtfError, TimeoutError):  # it may be gone; then the claims' leases end by themselves
            async with asyncio.timeout(LEAVE_S):
                await self._asker.controller.next_work(request, timeout=LEAVE_S)
        self.asked = 0

    def _request(self, lambdas: Sequence[str], most: int) -> c.NextWorkRequest:
        self._call += 1
        self.asked = most
        if lambdas != self._names:
            self._names, self._set = lambdas, self._set + 1
        if self._set == self._known_set:
            lambdas = ()  # of thousands they would be most of what a call costs
        return c.NextWorkRequest(
            executor_id=self._asker.executor_id,
            stream=self._stream,
            ack=self._ack,
            max_tasks=most,
            wait_us=round(WAIT_S * US),
            lambdas=lambdas,
            signatures=[self._asker.signatures[each] for each in lambdas],
            set=self._set,
            boot_id=self._boot_id,
            call=self._call,
            nonce=new_id(self._asker.runtime.random, _NONCE_BITS),
            heartbeat_timeout_us=self._asker.lease_us,
            pool=self._asker.pool,
        )


def fetches(asker: Asker, lambdas: Mapping[str, bool]) -> list[Fetch]:
    """The calls of an executor: two of each kind of lambda that it has. `lambdas`: by name, whether each is an `async def`."""
    found = []
    for kind, is_async in (("def", False), ("async", True)):
        if names := sorted(name for name, each in lambdas.items() if each is is_async):
            found.append(Fetch(asker, kind, names, is_async=is_async))
            found.append(Fetch(asker, f"{kind}lowvolume", names, is_async=is_async, low_volume=True))
    return found
