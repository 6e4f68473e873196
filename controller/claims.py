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
from atf.errors import AtfError, InvalidArgument, StoreSettling
from atf.log import get_logger
from atf.rpc import api
from atf.rpc import hsc_pb2 as h
from atf.rpc import task_pb2 as t
from atf.runtime import Runtime, end, new_id

from .demand import lambda_of
from .reports import Reports

PATIENCE_S: Final = 4.0
"""Seconds that a call of NextWork waits for its claims. Then it is answered without, and what they bring is handed back."""

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


class ClaimCalls:
    """The claims under way.

    Args:
        hsc: takes them.
        reports: hands back what nobody wants any more.
        timing: how long leases last.
        runtime: clocks, chance, spawning.
        paused: called where the HSC answers that claims are paused.

    Attributes:
        possible: cleared while the outcome of some claim is unknown after a failure: nothing more should be popped.
    """

    def __init__(
        self,
        *,
        hsc: api.HSC,
        reports: Reports,
        timing: Timing,
        runtime: Runtime,
        paused: Callable[[], None] = lambda: None,
    ) -> None:
        self._paused = paused
        self._hsc = hsc
        self._reports = reports
        self._timing = timing
        self._runtime = runtime
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
            nonce=new_id(self._runtime.random),
            task_ids=list(ids),
            heartbeat_timeout_us=self._timing.heartbeat_timeout_us,
            signatures={
                name: signatures[name] for name in {lambda_of(each) for each in set(ids.values())} if name in signatures
            },
        )
        ask = _OpenClaim(executor_id, request, self._runtime.boottime_us())
        work = self._runtime.spawn(self._work(ask), name=f"claim for {executor_id}")
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
            grant = await self._ask(ask)
        finally:
            self._trouble.ended(id(ask))
            self._unknown.discard(id(ask))
            if not self._unknown:
                self.possible.set()
        if not ask.wanted:
            self._return(ask, grant)
        return grant

    async def _ask(self, ask: _OpenClaim) -> Grant | None:
        tasks = len(ask.request.task_ids)

        async def claim() -> h.ClaimTasksReply:
            return await self._hsc.claim_tasks(ask.request, timeout=2 * self._timing.rpc_deadline)

        def failed(error: Exception) -> None:
            if isinstance(error, StoreSettling):
                self._paused()  # the HSC has answered: nothing is wrong with it
            else:
                self._trouble.failed(id(ask), error)
            self._unknown.add(id(ask))
            self.possible.clear()

        give_up = self._runtime.monotonic() + self._timing.heartbeat_timeout
        try:
            reply = await retry(claim, _CLAIM_AGAIN, self._runtime, until=give_up, failed=failed)
        except InvalidArgument:
            _log.exception("claim refused", tasks=tasks)
            return None
        except AtfError:
            _log.warning("claim given up; leases it may have got end by themselves", tasks=tasks)
            return None
        return Grant(list(reply.claims), list(reply.deferred), ask.sent_us)

    def _return(self, ask: _OpenClaim, grant: Grant | None) -> None:
        if grant is not None:
            self._reports.hand_back(ask.executor_id, refs(grant.claims))
            self._reports.hand_back_unclaimed(grant.deferred)


def refs(claims: list[t.Claim]) -> list[t.ClaimRef]:
    """What proves claims."""
    return [t.ClaimRef(task_id=each.task_id, token=each.token) for each in claims]
