"""Asks the HSC for claims in an executor's name, until there are some or the wait is over.

Each NextWork has one ask, under the nonce that its executor drew. An ask is a row of calls of NextClaims, one after the other:

    its answer                                     what follows
    claims, within FRESH_S of its sending          they are the executor's; their leases count from that sending
    claims, later                                  the same nonce, `repeated`: the HSC renews them
    `again`, `unknown_set`                         the same nonce at once; the set is named
    none: it broke, or what may be asked changed   the same nonce, `repeated`: what it had claimed comes again
    nothing                                        the same nonce after a pause
    `over`: the nonce's claims were, and are not   the call ends; its executor calls again, with another nonce

So claims whose answer is lost are known again with the next call, whichever HSC takes it. Where the ask ends before that, its call stays `unknown`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, NamedTuple

from atf.calls.retry import Pauses, RetryPolicy, Trouble
from atf.config.settings import Timing
from atf.errors import AtfError
from atf.log import get_logger
from atf.rpc import api, hsc_pb2 as h, task_pb2 as t
from atf.runtime import Runtime, end, happens
from atf.task import MAX_BATCH, US

from .calls import OpenCall
from .eligible import Eligible, Terms

FRESH_S: Final = 2.0
"""Seconds after the sending of a call in which its claims must have come. The HSC gives none to a call that is older than a second."""
MIN_WAIT_S: Final = 0.05
"""Seconds an ask waits at least: less is not enough to look into the queues once."""
_SLACK_S: Final = 2.0
"""Seconds that an answer may take beyond the wait."""
_AGAIN: Final = RetryPolicy(first=0.05, most=1.0)
_log = get_logger(duty="next_claims")


class Grant(NamedTuple):
    """What an ask has brought."""

    claims: list[t.Claim]  # none where nothing can come of its nonce any more
    sent_us: int  # CLOCK_BOOTTIME at the sending of the call that brought them: their leases count from there


@dataclass(eq=False)
class _Ask:
    call: OpenCall
    pauses: Pauses
    named: bool = False  # whether the next call names the set's lambdas


@dataclass(kw_only=True, eq=False)
class Asks:
    """The asks of one controller."""

    hsc: api.HSC
    """Takes them."""
    eligible: Eligible
    """Says what may be asked for."""
    pool: str
    """The worker cluster that the host belongs to."""
    host: str
    """By what name others know the host."""
    timing: Timing
    """How long leases last."""
    runtime: Runtime
    """Clocks, chance, spawning."""

    def __post_init__(self) -> None:
        self._trouble = Trouble(_log, "hsc")

    async def next_claims(self, call: OpenCall, until: float) -> Grant | None:
        """Waits for claims; None: there are none by `until` of the monotonic clock, or the call was withdrawn."""
        ask = _Ask(call, Pauses(_AGAIN, self.runtime))
        until = max(until, self.runtime.monotonic() + MIN_WAIT_S)
        try:
            while not call.withdrawn and (left := until - self.runtime.monotonic()) > 0:
                call.stirred.clear()
                terms = self.eligible.terms(call)
                if terms is None:
                    await happens(call.stirred, left)
                elif (grant := await self._once(ask, terms, left)) is not None:
                    return grant
        finally:
            self.eligible.left(call)
            self._trouble.ended(id(ask))
        return None

    async def _once(self, ask: _Ask, terms: Terms, left: float) -> Grant | None:
        """One call of NextClaims."""
        request = self._request(ask, terms, left)
        sent_us = self.runtime.boottime_us()
        try:
            reply = await self._sent(ask, request, left + _SLACK_S)
        except AtfError as error:
            self._trouble.failed(id(ask), error)
            await self._pause(ask, left)
            return None
        if reply is None:
            return None
        self._trouble.ended(id(ask))
        if reply.claims and self.runtime.boottime_us() - sent_us > FRESH_S * US:
            ask.call.unknown = True  # nobody has them yet: the next call has their leases renewed
            return None
        ask.call.unknown = False
        if reply.claims or reply.over:
            return Grant(list(reply.claims), sent_us)
        if reply.unknown_set and not ask.named:
            ask.named = True
        elif reply.again:
            ask.pauses.reset()
        else:
            await self._pause(ask, left)
        return None

    async def _sent(self, ask: _Ask, request: h.NextClaimsRequest, timeout: float) -> h.NextClaimsReply | None:
        """The answer; None: what may be asked for has changed meanwhile, or nobody asks any more."""
        ask.call.unknown = True
        work = self.runtime.spawn(self.hsc.next_claims(request, timeout=timeout), name=f"ask for {request.executor_id}")
        ask.call.asking = work
        try:
            await asyncio.wait({work})
        finally:
            ask.call.asking = None
            await end([work])  # nobody waits for it where this one was cancelled
        return None if work.cancelled() else work.result()

    async def _pause(self, ask: _Ask, left: float) -> None:
        await happens(ask.call.stirred, min(ask.pauses.next(), left))

    def _request(self, ask: _Ask, terms: Terms, left: float) -> h.NextClaimsRequest:
        call = ask.call
        request = h.NextClaimsRequest(
            executor_id=call.executor_id,
            nonce=call.nonce,
            max_tasks=terms.room,
            wait_us=round(left * US),
            waited_us=round((self.runtime.monotonic() - call.since) * US),
            repeated=call.unknown,
            lambda_set=call.runs.digest,
            without=sorted(terms.without)[:MAX_BATCH],  # more are handed back when they come
            pool=self.pool,
            host=self.host,
            heartbeat_timeout_us=self.timing.heartbeat_timeout_us,
        )
        if ask.named:
            request.lambdas.extend(call.runs.signatures)
            request.signatures.extend(call.runs.signatures.values())
        return request
