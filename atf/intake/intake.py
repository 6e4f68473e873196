"""Takes tasks from the queues and claims them for those who wait, with one function of the store; nothing beyond what they ask for.

1. An *ask* stands in the line of its kind (line.py): asks of one kind may be given the same.
2. A queue is notified, or a scan names it (scans.py): the backlog of each line that may be given its tasks notes it (backlog.py).
3. A call of the store serves the ask that has waited longest, together with the other asks of its host in that line: the ids are dealt among
   them one by one (takes.py). There is one call at a time for each line and partition, so one task among a thousand who wait costs one call.
4. What the call claimed is the ask's answer.

Nothing is held here: an id is in its queue, or it is claimed by whoever asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from atf.errors import Unavailable
from atf.runtime import Runtime, end, happens
from atf.store.servers.notifications import place_of
from atf.store.store import Store

from .asks import NOTHING, Answer, Ask, Lambdas, lambda_of
from .floods import Floods
from .lines import Lines, ServedLine
from .scans import Scans
from .takes import Takes

LISTEN_S: Final = 60.0
"""Seconds of one wait for a notification."""
MIN_WAIT_S: Final = 0.05
"""Seconds an ask waits at least: less is not enough to look into the queues once."""


@dataclass(kw_only=True, eq=False)
class Intake:
    """The engine of one process.

    Attributes:
        takes: the calls that it makes.
    """

    store: Store
    """Where the queues are."""
    ageing: float
    """Seconds a queue waits until it counts as one priority higher."""
    runtime: Runtime
    """Clocks and chance."""
    only: Callable[[Ask], Lambdas | None] = lambda _: None
    """Of which lambdas alone an ask may be given something now; None: of all."""
    heard: Callable[[str], None] = lambda _: None
    """Told of each notification: the queue that has entries; "%" and a pool whose cores were written; "&" and a host that drains or goes on."""
    handed: Callable[[Ask, Lambdas, bool], None] = lambda *_: None
    """Told of what was given to an ask: of which lambdas, and whether it was as much as it would take."""

    def __post_init__(self) -> None:
        self._closed = False
        self._stir = asyncio.Event()
        self._of_nonce: dict[str, Ask] = {}
        self._of_owner: dict[str, dict[Ask, None]] = {}
        self._lines = Lines(self.store.partitions, self.ageing)
        self._floods = Floods(self.runtime)
        self._scans = Scans(self.store, self.runtime, found=self._found, opened=self._look_at_all)
        self.takes = Takes(
            store=self.store,
            runtime=self.runtime,
            lines=self._lines,
            scans=self._scans,
            floods=self._floods,
            handed=self.handed,
            ended=self._call_ended,
        )

    # --- for those who ask -----------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask, seconds: float, *, repeated: bool = False) -> Answer:
        """Waits until something was claimed for an ask, at most so long. Who is cancelled meanwhile gives its nonce up, or repeats the ask.

        Args:
            ask: the ask.
            seconds: how long it waits.
            repeated: whether its nonce may have claimed something already: that is the answer then.

        Raises:
            Unavailable: it is not known what was claimed, or nothing is taken here any more: ask again, with the same nonce, as repeated.
        """
        if await self._end_earlier(ask.nonce) or repeated:
            claims = await self.store.claims_of(ask.owner, ask.nonce, ask.max_bytes)
            if claims:
                return Answer(claims)
        self._open(ask)
        try:
            await asyncio.wait({ask.answered}, timeout=max(seconds, MIN_WAIT_S))
            while ask.call is not None and ask.open:  # what it claims would be lost
                await asyncio.wait([ask.call])
            ask.answer(NOTHING)
            return ask.answered.result()
        finally:
            ask.answer(NOTHING)
            self._shut(ask)

    def give_up(self, nonces: Iterable[str]) -> None:
        """Nobody reads the answers of these any more: they are given nothing, as far as that can be prevented."""
        for nonce in nonces:
            if (ask := self._of_nonce.get(nonce)) is not None:
                ask.answer(NOTHING)

    def rearrange(self, owners: Iterable[str]) -> None:
        """What the asks of these may be given has changed."""
        for owner in owners:
            for ask in list(self._of_owner.get(owner, ())):
                may_be = ask.kind._replace(only=self.only(ask))
                if may_be != ask.may_be and ask.open and ask.call is None:
                    self._leave(ask)
                    ask.may_be = may_be
                    self._enter(ask)

    def waits(self, lambda_name: str, pool: str) -> bool:
        """Whether somebody of a pool waits for tasks of a lambda."""
        return any(line.kind.pool == pool and len(line) for line in self._lines.serving(lambda_name))

    async def close(self) -> None:
        """Takes nothing more: who waits is to ask elsewhere. Waits for the calls under way."""
        self._closed = True
        for ask in list(self._of_nonce.values()):
            if ask.call is None:
                ask.fail(_ends())
        await self.takes.settled()

    async def _end_earlier(self, nonce: str) -> bool:
        """Ends an ask with the same nonce, whose answer nobody reads any more. Returns whether that may have claimed something."""
        earlier = self._of_nonce.get(nonce)
        if earlier is None:
            return False
        earlier.answer(NOTHING)
        in_call = earlier.call is not None
        while earlier.call is not None:
            await asyncio.wait([earlier.call])
        return in_call

    def _open(self, ask: Ask) -> None:
        if self._closed:
            raise _ends()
        ask.may_be = ask.kind._replace(only=self.only(ask))
        self._of_nonce[ask.nonce] = ask
        self._of_owner.setdefault(ask.owner, {})[ask] = None
        self._scans.want(True)
        self._enter(ask)

    def _shut(self, ask: Ask) -> None:
        if self._of_nonce.get(ask.nonce) is ask:
            del self._of_nonce[ask.nonce]
        of_owner = self._of_owner[ask.owner]
        del of_owner[ask]
        if not of_owner:
            del self._of_owner[ask.owner]
        self._scans.want(bool(self._of_owner))
        self._leave(ask)

    def _enter(self, ask: Ask) -> None:
        """An ask stands in the line of its kind. A new line has all partitions scanned, since nothing is known of its queues."""
        now = self.runtime.monotonic()
        line = self._lines.known(ask.may_be)
        if line is None:
            line = self._lines.make(ask.may_be, now)
            self._scans.soon()
        line.used_at = now
        line.add(ask, now)
        self._look_at(line)

    def _leave(self, ask: Ask) -> None:
        line = self._lines.known(ask.may_be)
        if line is not None:
            line.used_at = self.runtime.monotonic()
            line.remove(ask)

    # --- what is there ---------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        async with self.store.listen("ready", range(self.store.partitions)) as notifications:
            while True:
                messages = await notifications.wait(LISTEN_S)
                if not messages:  # one may have been missed
                    self._scans.soon()
                for partition, name in map(place_of, messages):
                    self.heard(name)
                    if name[:1] not in {"%", "&"}:
                        self._floods.notified(lambda_of(name))
                        self._note(partition, name)

    def _found(self, partition: int, queues: Sequence[str]) -> None:
        for queue in queues:
            self._note(partition, queue)

    def _note(self, partition: int, queue: str) -> None:
        """A queue may hold something."""
        for line in self._lines.serving(lambda_of(queue)):
            line.backlog.notified(partition, queue, self.runtime.monotonic())
            self._look_at(line)

    def _look_at(self, line: ServedLine) -> None:
        self._lines.look_at(line)
        self._stir.set()

    def _look_at_all(self) -> None:
        """A partition can be taken from again: what waits there was not looked at meanwhile."""
        for line in self._lines:
            self._look_at(line)

    # --- the loop --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serves the asks until cancelled."""
        duties = [self.runtime.spawn(self._scans.run(), name="scans"), self.runtime.spawn(self._serve(), name="serve")]
        if self.store.settings.wakeups:
            duties.append(self.runtime.spawn(self._listen(), name="listen ready"))
        try:
            await asyncio.gather(*duties)
        finally:
            await end(duties)
            await self.takes.end()

    async def _serve(self) -> None:
        while True:
            self._stir.clear()
            now = self.runtime.monotonic()
            while (line := self._lines.next_due(now)) is not None:
                self.takes.serve(line)
            self.takes.serve_held_up()
            at = self._lines.next_at()
            await happens(self._stir, None if at is None else max(at - self.runtime.monotonic(), 0))
            if self.takes.error is not None:
                raise self.takes.error

    def _call_ended(self, asks: Sequence[Ask]) -> None:
        """A call has ended that was made for these: what has changed meanwhile is seen to now."""
        for ask in asks:
            if self._closed:
                ask.fail(_ends())
        self.rearrange({ask.owner for ask in asks if ask.open})
        self._stir.set()


def _ends() -> Unavailable:
    return Unavailable("this HSC ends: ask another one, with the same nonce, as repeated")
