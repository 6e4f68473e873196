"""Claims popped ids through the HSC in the name of the executor that asked.

A claim whose outcome is unknown is repeated with the same nonce, which answers the same, until it is known; until then
nothing more is popped. It runs by itself: if whoever asked goes away meanwhile, what it got is handed back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.config.settings import Timing
from atf.errors import AtfError, ClaimsPaused, InvalidArgument
from atf.log import get_logger
from atf.rpc import api, hsc_pb2 as h, task_pb2 as t
from atf.runtime import Runtime, end, new_id

from .demand import lambda_of
from .reports import Reports

PATIENCE_S: Final = 4.0
"""Seconds that a call of NextWork waits for its claims. Then it is answered without, and what they bring is handed back."""

_NONCE_BITS: Final = 64
"""Of a claim's nonce: with the counter that is told apart, of one task."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})

_CLAIM_AGAIN: Final = RetryPolicy(first=0.05, most=1.0, errors=(AtfError,), never=(InvalidArgument,))
_log = get_logger(duty="claim")


@dataclass(frozen=True)
class Grant:
    """What a claim brought."""

    claims: list[t.Claim]
    deferred: list[str]
    sent_us: int
    """CLOCK_BOOTTIME of the first sending: the leases count from there, whichever repeat was answered."""


@dataclass
class _OpenClaim:
    executor_id: str
    request: h.ClaimTasksRequest
    sent_us: int
    wanted: bool = True


@dataclass(kw_only=True, eq=False)
class ClaimCalls:
    """The claims under way.

    Attributes:
        possible: cleared while the outcome of some claim is unknown after a failure: nothing more should be popped.
    """

    hsc: api.HSC
    """Takes them."""
    reports: Reports
    """Hands back what nobody wants any more."""
    timing: Timing
    """How long leases last."""
    runtime: Runtime
    """Clocks, chance, spawning."""
    paused: Callable[[], None] = lambda: None
    """Called where the HSC answers that claims are paused."""

    def __post_init__(self) -> None:
        self._under_way: set[asyncio.Task[Grant | None]] = set()
        self._unknown: set[int] = set()
        self._trouble = Trouble(_log, "hsc")
        self.possible = asyncio.Event()
        self.possible.set()

    async def claim(
        self, executor_id: str, ids: Mapping[str, str], signatures: Mapping[str, str] = _NONE
    ) -> Grant | None:
        """Claims ids for an executor. None: no answer within PATIENCE_S; what comes later is handed back.

        Args:
            executor_id: whose claims they become.
            ids: the queue by the id; at most 256.
            signatures: by lambda the digest of the signature that the executor runs.
        """
        request = h.ClaimTasksRequest(
            executor_id=executor_id,
            nonce=new_id(self.runtime.random, _NONCE_BITS),
            task_ids=list(ids),
            heartbeat_timeout_us=self.timing.heartbeat_timeout_us,
            signatures={
                name: signatures[name] for name in {lambda_of(each) for each in set(ids.values())} if name in signatures
            },
        )
        ask = _OpenClaim(executor_id, request, self.runtime.boottime_us())
        work = self.runtime.spawn(self._work(ask), name=f"claim for {executor_id}")
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        try:
            done, _ = await asyncio.wait({work}, timeout=PATIENCE_S)
        except asyncio.CancelledError:
            ask.wanted = False
            if work.done():
                self._return(ask, work.result())
            raise
        if done:
            return work.result()
        ask.wanted = False
        return None

    async def flush(self, seconds: float) -> None:
        """Waits until the outcome of every claim is known, at most so long."""
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=seconds)

    async def end(self) -> None:
        """Gives up on what is not known: those leases end by themselves."""
        await end(self._under_way)

    async def _work(self, ask: _OpenClaim) -> Grant | None:
        try:
            grant = await self.ask(ask)
        finally:
            self._trouble.ended(id(ask))
            self._unknown.discard(id(ask))
            if not self._unknown:
                self.possible.set()
        if not ask.wanted:
            self._return(ask, grant)
        return grant

    async def ask(self, ask: _OpenClaim) -> Grant | None:
        tasks = len(ask.request.task_ids)

        async def claim() -> h.ClaimTasksReply:
            return await self.hsc.claim_tasks(ask.request, timeout=2 * self.timing.rpc_deadline)

        def failed(error: Exception) -> None:
            if isinstance(error, ClaimsPaused):
                self.paused()  # the HSC has answered: nothing is wrong with it
            else:
                self._trouble.failed(id(ask), error)
            self._unknown.add(id(ask))
            self.possible.clear()

        give_up = self.runtime.monotonic() + self.timing.heartbeat_timeout
        try:
            reply = await retry(claim, _CLAIM_AGAIN, self.runtime, until=give_up, failed=failed)
        except InvalidArgument:
            _log.exception("claim refused", tasks=tasks)
            return None
        except AtfError:
            _log.warning("claim given up; leases it may have got end by themselves", tasks=tasks)
            return None
        return Grant(list(reply.claims), list(reply.deferred), ask.sent_us)

    def _return(self, ask: _OpenClaim, grant: Grant | None) -> None:
        if grant is not None:
            self.reports.hand_back(ask.executor_id, refs(grant.claims))
            self.reports.hand_back_unclaimed(grant.deferred)


def refs(claims: list[t.Claim]) -> list[t.ClaimRef]:
    """What proves claims."""
    return [t.ClaimRef(task_id=each.task_id, token=each.token) for each in claims]
