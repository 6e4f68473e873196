"""Says to the HSC, again and again, what there is to know of this host; and hears whether an operator has it drain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from atf import __version__
from atf.calls.retry import Pauses, RetryPolicy, Trouble
from atf.errors import AtfError
from atf.log import get_logger
from atf.process.name import process_name
from atf.rpc import api, hsc_pb2 as h
from atf.runtime import Runtime, end, happens
from atf.task import MAX_BATCH, MAX_WHY_NOT_CHARS, STARTS, US

from .eligible import Eligible
from .here import ExecutorsHere
from .quarantine import Quarantine
from .starts import Starts

WAIT_S: Final = 30.0
"""Seconds that a report stays open at most, if nothing is new; while it is, the HSC says that this host lives. Each is some shorter, by chance:
those of many hosts that came at once, from an HSC that had ended, spread over time."""
KNOWN_S: Final = 30.0
"""Seconds for which executors that were said to be alive count as such."""
FAILING_KNOWN_S: Final = 300.0
"""Seconds for which it is known why none can start here: a controller that has given up is not forgotten before somebody has looked."""

_SLACK_S: Final = 5.0
"""Seconds that an answer may take beyond the wait."""
_AGAIN: Final = RetryPolicy(first=0.1, most=2.0)
"""When it is said again where it did not arrive, or part of the store was away: two lost calls must not have executors count as gone that live."""
_QUICK_S: Final = 0.5
"""Seconds within which an answer is no long poll's."""
_DRAINING_S: Final = 1.0
"""Seconds between two times that a host which drains says how many executors are left: somebody waits for it."""

_log = get_logger(duty="report_host")


@dataclass(kw_only=True, eq=False)
class HostState:
    """What this host says of itself.

    Attributes:
        on_drain: called when an operator has the host drain or take tasks again.
        why_away: why the HSC did not take the last report; empty: it did.
        leaves: whether its executors are to be members of their pool no more, since the controller ends.
    """

    hsc: api.HSC
    """To which it does."""
    pool: str
    """Its pool's name."""
    host: str
    """By what name others know it."""
    runtime: Runtime
    """Clocks and spawning."""
    starts: Starts
    """Of its executors."""
    quarantine: Quarantine
    """What it quarantines."""
    here: ExecutorsHere
    """The executors of this host."""
    guarded: Collection[str]
    """Those whose guards run here: they count from before their first call."""
    eligible: Eligible
    """Told when what executors may run may have changed."""

    def __post_init__(self) -> None:
        self.on_drain: Callable[[bool], None] = lambda _: None
        self.why_away = ""
        self.leaves = False
        self._news = asyncio.Event()
        self._unknown: set[str] = set()
        """Digests of sets that the HSC does not know."""
        self._trouble = Trouble(_log, "hsc")
        self._pauses = Pauses(_AGAIN, self.runtime)
        self.starts.changed.append(self.tell)
        self.eligible.news = self.tell

    def tell(self) -> None:
        """There is something new to say."""
        self._news.set()

    async def run(self) -> None:
        """Reports until cancelled: what is new at once, and the rest again before it is forgotten. Once it `leaves` all is said."""
        while not self.leaves:
            self._news.clear()
            began = self.runtime.monotonic()
            change = self.quarantine.next_change(began)
            self.eligible.changed()
            left = WAIT_S * self.runtime.random.uniform(0.8, 1.0)
            if change is not None:
                left = min(max(change - began, 0.0), left)
            taken = await self._report_until_news(left)
            if taken and self.runtime.monotonic() - began >= min(left, _QUICK_S):
                self._pauses.reset()
            else:  # also where an HSC does not wait
                await happens(self._news, min(left, self._pauses.next()))
        await asyncio.Event().wait()

    async def say(self) -> None:
        """Reports once more, without waiting: what stays known after this process."""
        with contextlib.suppress(AtfError):
            await self._report(0.0)

    async def _report_until_news(self, wait: float) -> bool:
        """One report, whose answer comes when an operator has decided otherwise; given up where there is news. Returns whether it has been taken."""
        work = self.runtime.spawn(self._report(wait), name="report_host")
        news = self.runtime.spawn(self._news.wait(), name="news")
        try:
            await asyncio.wait({work, news}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else True
        except AtfError as error:
            self.why_away = str(error)
            self._trouble.failed(self, error)
            return False
        finally:
            await end([work, news])

    async def _report(self, wait: float) -> bool:
        """One call. Returns whether all of the store has noted it."""
        now, why_not, runs = self.runtime.monotonic(), self.starts.to_say, self.here.runs()
        count = {*runs, *self.guarded}
        if self.eligible.drains and count:
            wait = min(wait, _DRAINING_S)
        known = FAILING_KNOWN_S if why_not not in {"", STARTS} else KNOWN_S
        request = h.ReportHostRequest(
            pool=self.pool,
            host=self.host,
            executors=[
                h.HostExecutor(executor_id=each, lambda_sets=[runs[each].digest] if each in runs else [])
                for each in sorted(count)
            ],
            sets=[
                h.NamedSet(digest=each.digest, lambdas=each.signatures, signatures=each.signatures.values())
                for each in {each.digest: each for each in runs.values()}.values()
                if each.digest in self._unknown
            ],
            quarantined=[
                h.HostQuarantine(**{"lambda": each.lambda_name}, for_us=round(max(each.until - now, 0.0) * US))
                for each in self.quarantine.listing(now)[:MAX_BATCH]
            ],
            why_not=why_not[:MAX_WHY_NOT_CHARS],
            known_us=round(known * US),
            drains=self.eligible.drains,
            wait_us=round(wait * US),
            leaves=self.leaves,
            version=__version__,
            process=process_name(),
        )
        reply = await self.hsc.report_host(request, timeout=wait + _SLACK_S)
        self._trouble.ended(self)
        self.why_away = ""
        unknown, self._unknown = self._unknown, set(reply.unknown_sets)
        if self._unknown - unknown:
            self.tell()  # they are named at once
        self._drain_host(reply.drains)
        return reply.everywhere and not self._unknown

    def _drain_host(self, drains: bool) -> None:
        """What an operator wants of this host holds until the HSC says otherwise."""
        if drains == self.eligible.drains:
            return
        self.eligible.drains = drains
        _log.info("host drains" if drains else "host takes tasks again", host=self.host)
        self.eligible.changed()
        self.on_drain(drains)
