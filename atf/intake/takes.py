"""Serves lines: decides who is next, makes the call of the store, and deals out what it claimed.

Where the outcome of a call is unknown, it is looked up by the nonces of its asks, while they are fresh; nothing else is given to them meanwhile.
Then the askers are told to ask again, as repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from atf.errors import ClaimsPaused, Unavailable
from atf.log import get_logger
from atf.runtime import Runtime, end
from atf.store.library import PLACE_PATIENCE_US
from atf.store.store import Store
from atf.store.values.claims import ClaimedTask, Taken, Taker
from atf.task import MAX_BATCH, US

from .asks import Answer, Ask, Lambdas, lambda_of
from .backlog import TakeRequest
from .floods import FLOODS, Floods
from .line import MOST_NEAR, NEAR
from .lines import Hint, Lines, ServedLine
from .scans import Scans

MOST_BESIDE: Final = 16
"""Tasks of a small call for each ask at most."""
RESTS: Final = 6.0
"""Times as long as the call took, which follows what store and processors have to do just now."""
MOST_REST_S: Final = 0.03
"""Seconds of a rest at most: a store that was slow once holds up nobody."""
MOST_CALLS: Final = 32
"""Calls under way at once: where executors run many different sets of lambdas, the store gets them bit by bit."""
LEFT_S: Final = PLACE_PATIENCE_US / US
"""Seconds for which tasks are left to the host that is preferred for them."""

_AGAIN: Final = Answer(again=True)
_OVER: Final = Answer(over=True)
_log = get_logger(duty="next_claims")


@dataclass(kw_only=True, eq=False)
class Takes:
    """The calls of the store that take tasks.

    Attributes:
        error: what no call should end with.
    """

    store: Store
    """Where the queues are."""
    runtime: Runtime
    """Clocks, spawning."""
    lines: Lines
    """Who waits."""
    scans: Scans
    """Which partitions can be taken from."""
    floods: Floods
    """Which lambdas flood."""
    handed: Callable[[Ask, Lambdas, bool], None]
    """Told of what was given to an ask: of which lambdas, and whether it was as much as it would take."""
    ended: Callable[[Sequence[Ask]], None]
    """Told of each call that has ended, and whose it was."""

    def __post_init__(self) -> None:
        self.error: BaseException | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._look_ups: set[asyncio.Task[None]] = set()
        self._held_up: dict[ServedLine, None] = {}
        """Lines that wait until a call of others has ended, the first to do so first."""

    @property
    def full(self) -> bool:
        """Whether no other call may begin now."""
        return len(self._calls) >= MOST_CALLS

    def serve(self, line: ServedLine) -> None:
        """Begins the calls that can be made for a line now, and has those asked again whose turn is near."""
        now = self.runtime.monotonic()
        self._renew(line, line.due(now), now)
        while not self.full and self._begin(line, now):
            pass
        if self.full:
            self._held_up[line] = None
        self.lines.look_later(line, line.due_at())

    def serve_held_up(self) -> None:
        """Serves the lines that had to wait until others' calls had ended."""
        while self._held_up and not self.full:
            line = next(iter(self._held_up))
            del self._held_up[line]
            self.serve(line)

    async def settled(self) -> None:
        """Waits until no call is under way."""
        while under_way := self._calls | self._look_ups:
            await asyncio.wait(under_way)

    async def end(self) -> None:
        """Ends what is under way. What it has claimed is found by the nonces."""
        await end([*self._calls, *self._look_ups])

    # --- whose turn it is ------------------------------------------------------------------------------------------------

    def _renew(self, line: ServedLine, asks: Iterable[Ask], now: float) -> None:
        for ask in asks:
            line.renewed(ask, now)
            ask.answer(_AGAIN)

    def _begin(self, line: ServedLine, now: float) -> bool:
        """Begins a call. Returns whether there was one to make."""
        hinted = self._hinted(line, now)
        first, request = hinted or (line.first(now), None)
        if first is None:
            return False
        request = request or line.backlog.choose(now, line.busy | self.scans.closed)
        if request is None:
            return False
        most = MOST_BESIDE if self.floods.beside_quiet() else MAX_BATCH
        asks = line.beside(first)[:MAX_BATCH]
        takers = [Taker(each.owner, each.nonce, min(each.room, most)) for each in asks]
        work = self.runtime.spawn(self._take(line, request, asks, takers, hinted=hinted is not None), name="take")
        line.taken(asks, work)
        line.busy.add(request.partition)
        self._calls.add(work)
        work.add_done_callback(lambda _: self._taken(line, request, asks, work))
        return True

    def _hinted(self, line: ServedLine, now: float) -> tuple[Ask, TakeRequest] | None:
        """Who comes first because tasks were left to its host."""
        for host, hint in [*line.hints.items()]:
            if hint.until <= now:
                del line.hints[host]
            elif hint.partition in line.busy or hint.partition in self.scans.closed:
                continue
            elif (ask := line.of_host(host, now)) is not None:
                del line.hints[host]
                return ask, line.backlog.ask_for(hint.partition, hint.since, now)
        return None

    # --- a call ----------------------------------------------------------------------------------------------------------

    async def _take(
        self, line: ServedLine, request: TakeRequest, asks: Sequence[Ask], takers: Sequence[Taker], *, hinted: bool
    ) -> None:
        began, kind, host = self.runtime.monotonic(), line.kind, asks[0].host
        want = min(sum(each.room for each in takers), MAX_BATCH)
        try:
            taken = await self.store.next_claims(
                request.partition,
                request.groups,
                takers,
                want=want,
                pool=kind.pool,
                host=host,
                signatures=kind.runs.signatures,
                max_bytes=min(each.max_bytes for each in asks),
            )
        except ClaimsPaused:
            line.backlog.failed(request)
            self.scans.paused(request.partition)
            self._release(line, asks)
            return
        except Exception as error:  # noqa: BLE001  a duty outlives whatever fails in it; Scans says what
            line.backlog.failed(request)
            self.scans.failed(request.partition, error)
            for ask in asks:
                self._look_up_later(line, ask, request.partition)
            return
        now = self.runtime.monotonic()
        line.backlog.taken(request, taken.served, taken.filled, now)
        count = self.floods.brought(want, taken.served)
        if host and count >= FLOODS and self.floods.beside_quiet():
            line.rest(host, now + min(RESTS * (now - began), MOST_REST_S))
        line.near = min(2 * line.near, MOST_NEAR) if taken.filled else NEAR
        if taken.filled:
            line.hurry()
        if taken.left:
            self.scans.soon(request.partition, now + LEFT_S)
        if not hinted:
            self._hint(line, request, taken.left_to - {host}, now)
        self._deal(line, asks, takers, taken)
        if count:
            _log.debug("next_claims", partition=request.partition, tasks=count, want=want, asks=len(asks))

    def _deal(self, line: ServedLine, asks: Sequence[Ask], takers: Sequence[Taker], taken: Taken) -> None:
        lambdas = frozenset(map(lambda_of, taken.served))
        for ask, taker in zip(asks, takers, strict=True):
            claims = taken.claims.get(ask.nonce, ())
            if claims:
                self.handed(ask, lambdas, len(claims) >= taker.room)
            if ask.nonce in taken.over:
                ask.answer(_OVER)
            self._answer(line, ask, claims)

    def _answer(self, line: ServedLine, ask: Ask, claims: Sequence[ClaimedTask]) -> None:
        """Answers an ask with its claims; without any it goes on waiting. What was claimed for one that is gone is found by its nonce."""
        if claims:
            ask.answer(Answer(claims))
        self._release(line, [ask])

    def _release(self, line: ServedLine, asks: Iterable[Ask]) -> None:
        for ask in asks:
            line.released(ask, self.runtime.monotonic())

    def _hint(self, line: ServedLine, request: TakeRequest, hosts: Iterable[str], now: float) -> None:
        """Some tasks were left to these hosts: the next calls are theirs, if they wait here. Else anybody may take them after LEFT_S."""
        for host in hosts:
            if waiting := line.waiting(host):
                line.hints[host] = Hint(request.partition, request.since, now + LEFT_S)
                self._renew(line, [ask for ask in waiting if ask.fresh_until <= now], now)

    def _taken(self, line: ServedLine, request: TakeRequest, asks: Sequence[Ask], work: asyncio.Task[None]) -> None:
        self._calls.discard(work)
        line.busy.discard(request.partition)
        self._note_error(work, asks)
        self.lines.look_at(line)
        self.ended(asks)

    def _note_error(self, work: asyncio.Task[None], asks: Iterable[Ask]) -> None:
        self.error = self.error or (None if work.cancelled() else work.exception())
        for ask in asks:
            if ask.call is work:  # it was cut short
                ask.call = None

    # --- a call whose outcome is unknown ---------------------------------------------------------------------------------

    def _look_up_later(self, line: ServedLine, ask: Ask, partition: int) -> None:
        ask.call = work = self.runtime.spawn(self._look_up(line, ask, partition), name="look up claims")
        self._look_ups.add(work)
        work.add_done_callback(lambda _: self._looked_up(line, ask, work))

    def _looked_up(self, line: ServedLine, ask: Ask, work: asyncio.Task[None]) -> None:
        self._look_ups.discard(work)
        self._note_error(work, [ask])
        self.lines.look_at(line)
        self.ended([ask])

    async def _look_up(self, line: ServedLine, ask: Ask, partition: int) -> None:
        """Finds out what a call that failed has claimed for an ask."""
        while ask.open and (left := ask.fresh_until - self.runtime.monotonic()) > 0:
            if not await self.scans.reopened(partition, left):
                break
            taker = Taker(ask.owner, ask.nonce, 1)
            try:
                taken = await self.store.next_claims(partition, [], [taker], want=0, max_bytes=ask.max_bytes)
            except ClaimsPaused:
                self.scans.paused(partition)  # something was claimed, and nobody may have it before the pause is over
                break
            except Exception as error:  # noqa: BLE001  it is tried again; Scans says what
                self.scans.failed(partition, error)
                continue
            self._answer(line, ask, taken.claims[ask.nonce])
            return
        ask.call = None
        ask.fail(
            Unavailable(
                "the task store does not say what it has claimed for this ask: ask again with the same nonce, as repeated"
            )
        )
