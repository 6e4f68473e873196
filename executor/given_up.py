"""Gives up the nonces of calls that brought no answer: what was claimed for them goes back, and nothing is claimed for them any more.

Only the executor knows that an answer never came, so only it may say so. It says so at the HSC itself, since the controller may be what is gone, and
until it is answered or the leases have ended. The next call does not wait for that: it has a nonce of its own.
"""

from __future__ import annotations

import asyncio
from typing import Final

from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.errors import AtfError, InvalidArgument
from atf.log import get_logger
from atf.rpc import hsc_pb2 as h
from atf.rpc.api import HSC
from atf.runtime import Runtime, happens
from atf.task import MAX_BATCH

CALL_S: Final = 2.0
"""Seconds until a call without an answer is repeated."""
_AGAIN: Final = RetryPolicy(first=0.05, most=1.0, errors=(AtfError,), never=(InvalidArgument,))
_log = get_logger(duty="hand_back")


class GivenUp:
    """The nonces that one executor gives up.

    Args:
        executor_id: its id.
        hsc: takes them.
        life: seconds after which the leases of what they claimed have ended anyway.
        runtime: clocks and chance.
    """

    def __init__(self, executor_id: str, hsc: HSC, life: float, runtime: Runtime) -> None:
        self._executor_id, self._hsc, self._life, self._runtime = executor_id, hsc, life, runtime
        self._nonces: list[str] = []
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()
        self._trouble = Trouble(_log, "hsc")

    def add(self, nonce: str) -> None:
        """Gives one up."""
        self._nonces.append(nonce)
        self._none.clear()
        self._some.set()

    async def run(self) -> None:
        """Says so to the HSC until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while batch := self._nonces[:MAX_BATCH]:
                await self._tell(batch)
                del self._nonces[: len(batch)]
            self._none.set()

    async def told(self, seconds: float) -> None:
        """Waits until the HSC knows of all, at most so long."""
        await happens(self._none, seconds)

    async def _tell(self, nonces: list[str]) -> None:
        request = h.HandBackRequest(executor_id=self._executor_id, nonces=nonces)
        until = self._runtime.monotonic() + self._life
        try:
            await retry(
                lambda: self._hsc.hand_back(request, timeout=CALL_S),
                _AGAIN,
                self._runtime,
                until=until,
                trouble=(self._trouble, self),
            )
        except AtfError as error:
            _log.warning("claims of unanswered calls are left to their leases", calls=len(nonces), error=str(error))
