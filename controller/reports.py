"""Sends what must reach the HSC, however long that takes: claims to hand back, losses, and results of dead executors.

Each report is repeated until it is answered, or until it no longer matters. The HSC's calls are idempotent and prove
themselves by token, so a repeat, even a late one, does no harm.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from google.protobuf.message import Message

from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.config.settings import Timing
from atf.errors import AtfError, InvalidArgument, Unavailable
from atf.log import get_logger
from atf.rpc import api, hsc_pb2 as h, task_pb2 as t
from atf.runtime import Runtime, end
from atf.task import MAX_BATCH, MAX_WHY_CHARS

CALL_TIMEOUT_S: Final = 5.0

T = TypeVar("T")
Call = Callable[..., Awaitable[object]]
"""A method of api.HSC."""

_AGAIN: Final = RetryPolicy(first=0.1, most=2.0, errors=(AtfError,), never=(InvalidArgument,))
_log = get_logger(duty="report")


class Reports:
    """The reports under way."""

    def __init__(
        self, *, hsc: api.HSC, timing: Timing, runtime: Runtime, lost: Callable[[str], None] = lambda _name: None
    ) -> None:
        """Takes the HSC, and what is told of each lambda of which a run was `lost`."""
        self._hsc, self._lost = hsc, lost
        self._timing = timing
        self._runtime = runtime
        self._under_way: set[asyncio.Task[None]] = set()
        self._trouble = Trouble(_log, "hsc")

    def hand_back(self, executor_id: str, claims: Sequence[t.ClaimRef]) -> None:
        """Returns claims that never started. After one heartbeat_timeout their leases have ended anyway."""
        for part in _parts(claims):
            request = h.HandBackRequest(executor_id=executor_id, claims=part)
            self._repeat("hand_back", self._hsc.hand_back, request, len(part), self._timing.heartbeat_timeout)

    def give_up(self, executor_id: str, nonces: Sequence[str]) -> None:
        """Says that nobody takes what these asks have claimed. Once their leases have ended nothing is left of it."""
        for part in _parts(nonces):
            request = h.HandBackRequest(executor_id=executor_id, nonces=part)
            self._repeat("hand_back", self._hsc.hand_back, request, len(part), self._timing.heartbeat_timeout)

    def report_loss(self, executor_id: str, claims: Sequence[t.ClaimRef], why: str, *, shared: bool = False) -> None:
        """Says that these runs ended with their executor; `shared`, that none of them can be blamed for it."""
        for part in _parts(claims):
            request = h.ReportLossRequest(executor_id=executor_id, claims=part, why=why[:MAX_WHY_CHARS], shared=shared)
            self._repeat("report_loss", self._report_loss, request, len(part))

    def set_results(self, executor_id: str, results: Sequence[h.Result]) -> None:
        """Records how runs ended whose executor can't say it any more."""
        for part in _parts(results):
            request = h.SetResultsRequest(executor_id=executor_id, results=part)
            self._repeat("set_results", self._set_results, request, len(part))

    async def flush(self, seconds: float) -> int:
        """Waits until all reports have been answered, at most so long. Returns how many have not."""
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=seconds)
        return len(self._under_way)

    async def end(self) -> None:
        """Gives up on what has not been answered."""
        await end(self._under_way)

    async def _report_loss(self, request: h.ReportLossRequest, *, timeout: float) -> None:
        """One try; says of each run what its executor can't say any more."""
        reply = await self._hsc.report_loss(request, timeout=timeout)
        told = {each.task_id: each for each in reply.runs}
        for claim, verdict in zip(request.claims, reply.verdicts, strict=False):
            if verdict == h.OK:
                if claim.task_id in told:
                    self._lost(getattr(told[claim.task_id], "lambda"))
                _say_lost(request, claim.task_id, told.get(claim.task_id))

    async def _set_results(self, request: h.SetResultsRequest, *, timeout: float) -> None:
        """One try.

        Raises:
            Unavailable: a part of the store is away, and nothing was recorded there; recorded again, the others stay as they are.
        """
        reply = await self._hsc.set_results(request, timeout=timeout)
        if unknown := sum(each == h.UNKNOWN for each in reply.verdicts):
            raise Unavailable(f"the task store can't be reached for {unknown} of {len(reply.verdicts)} results")

    def _repeat(self, verb: str, call: Call, request: Message, tasks: int, life: float = math.inf) -> None:
        once = partial(call, request, timeout=CALL_TIMEOUT_S)
        report = self._runtime.spawn(self._work(verb, once, tasks, life), name=verb)
        self._under_way.add(report)
        report.add_done_callback(self._under_way.discard)

    async def _work(self, verb: str, once: Callable[[], Awaitable[object]], tasks: int, life: float) -> None:
        key, until = object(), self._runtime.monotonic() + life
        try:
            await retry(once, _AGAIN, self._runtime, until=until, trouble=(self._trouble, key))
        except InvalidArgument:
            _log.exception("report refused", verb=verb, tasks=tasks)
        except AtfError:
            _log.warning("report given up; the store consumer takes over", verb=verb, tasks=tasks)
        else:
            _log.debug(verb, tasks=tasks)
        finally:
            self._trouble.ended(key)


def _say_lost(request: h.ReportLossRequest, task_id: str, run: h.LostRun | None) -> None:
    """A run that ended with its executor; `run` is None where the task can't be read now."""
    if run is None:
        _log.warning("run lost", task=task_id, executor=request.executor_id, why=request.why)
        return
    say = _log.error if run.last else _log.warning
    say(
        "run lost",
        task=task_id,
        lambda_name=getattr(run, "lambda"),
        attempt=run.attempt,
        loss=f"{run.losses} of {run.max_losses}",
        last=run.last,
        executor=request.executor_id,
        why=request.why,
    )


def _parts(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + MAX_BATCH] for start in range(0, len(items), MAX_BATCH)]
