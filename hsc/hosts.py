"""Takes the reports of worker hosts: notes in the store what they say, and says to them whether an operator has them drain.

A report is a long poll: it is answered at once where the answer is another than the host knows, else when that changes, or when its wait is over.
While it is open its host lives. The HSC tells the store so every few seconds, of all hosts in a few calls, and what they said holds for longer;
`atf status` tells by it which hosts are silent. All that a host says is told when it is new, and again now and then. So a thousand hosts with
nothing new to say cost the store next to nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from atf.auth.caller import caller, permit
from atf.auth.grants import Verb
from atf.calls.retry import Trouble
from atf.errors import AtfError, InvalidArgument, Unavailable
from atf.log import get_logger
from atf.rpc import hsc_pb2 as h
from atf.rpc.lambda_sets import KnownSets, LambdaSet, check_digest
from atf.runtime import Runtime, happens
from atf.store.capacity import ServeAnswer
from atf.store.status import LiveRole
from atf.store.store import Store
from atf.task import MAX_BATCH, MAX_WHY_NOT_CHARS, US, check_lambda, check_pool

from .encoding import check_count, check_token
from .next_claims import MAX_WAIT_US
from .permits import PermittedSets
from .pools import Pools

MAX_EXECUTORS: Final = 10_000
"""Of one host."""
MAX_SETS: Final = 64
"""That an executor runs, and that one report names."""
RENEW_S: Final = 5.0
"""Seconds between two times that the store is told which hosts live; three fit into what makes one silent."""
NEXT_S: Final = 1.0
"""Seconds in which the next report of a host follows an answer: it lives meanwhile."""
SAID: Final = 0.5
"""Of the time for which a report counts, what passes at most until the store is told the same again, unless it was renewed."""
TOLD_S: Final = 120.0
"""Seconds until it is told all of it again also where it was: should part of it have been lost."""
ALIVE_S: Final = 30.0
"""Seconds for which a controller counts as alive after the store was told so."""
MAX_KNOWN_US: Final = 86_400 * US
MOST_TOLD: Final = 20_000
"""Hosts of which it is remembered what the store was told, before those are dropped that have to be told again anyway."""
EVERYTHING: Final = "*"
"""In the place of a lambda: the whole host is quarantined."""
UNKNOWN: Final = "*"
"""In the place of a lambda: some executors have not said yet what they run."""

_log = get_logger(duty="report_host")


@dataclass(eq=False)
class _HostNews:
    """What the store was told of a host last."""

    said: bytes
    request: h.ReportHostRequest
    sets: frozenset[LambdaSet]
    answer: ServeAnswer
    again_at: float
    """When it is told all of it again."""
    renewed_at: float
    reported_until: float = 0.0
    """When its last report was answered."""

    def holds(self, said: bytes, now: float) -> bool:
        """Whether it need not be told this."""
        lasts = SAID * self.request.known_us / US
        return self.said == said and now < min(self.again_at, self.renewed_at + lasts)


class _Alike(NamedTuple):
    """What hosts have in common of which the store is told together that they live."""

    pool: str
    known_us: int
    alive: bool  # whether workers are alive there


class Hosts:
    """The hosts that report to one HSC.

    Args:
        store: where what they say is noted.
        pools: what is known of their executors.
        sets: the sets of lambdas that are known.
        runtime: clocks.
    """

    def __init__(self, *, store: Store, pools: Pools, sets: KnownSets, runtime: Runtime) -> None:
        self._store = store
        self._pools = pools
        self._sets = sets
        self._runtime = runtime
        self._permitted = PermittedSets()
        self._news: dict[str, dict[asyncio.Event, None]] = {}
        """By host, of each report that is open, in the order in which they came: in that order they wake."""
        self._told: dict[str, _HostNews] = {}
        self._trouble = Trouble(_log, "store")
        self._closed = False

    async def report(self, request: h.ReportHostRequest) -> h.ReportHostReply:
        """Takes a report.

        Raises:
            InvalidArgument: it breaks a rule.
            PermissionDenied: the caller may not run one of the lambdas, or not serve the pool.
            Unavailable: this HSC ends; report to another one.
        """
        check(request)
        wait = caller().longest(request.wait_us / US)
        until = self._runtime.monotonic() + wait
        named = [LambdaSet.named(each.digest, each.lambdas, each.signatures) for each in request.sets]
        self._permitted.permit(request.pool, named)  # before they take the place of others
        for each in named:
            self._sets.learn(each)
        runs, unknown = self._runs(request)
        if unknown:
            return h.ReportHostReply(drains=request.drains, unknown_sets=sorted(unknown))
        self._permitted.permit(request.pool, [each for some in runs.values() for each in some])
        permit(Verb.WORK, *quarantined_lambdas(request))
        news = asyncio.Event()
        self._news.setdefault(request.host, {})[news] = None
        answered = False
        try:
            self._note(request, runs, wait)
            reply = await self._answer(request, runs, news, until)
            answered = True
            return reply
        finally:
            self._pools.of(request.pool).here.report_ended(request.host)
            del self._news[request.host][news]
            if not self._news[request.host]:
                del self._news[request.host]
                if not answered:  # it may say something else at another HSC
                    self._told.pop(request.host, None)
                elif (told := self._told.get(request.host)) is not None:
                    told.reported_until = self._runtime.monotonic()

    async def run(self) -> None:
        """Tells the store that the hosts live whose reports are open, until cancelled."""
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await self._renew()
            except AtfError as error:
                self._trouble.failed(self, error)
            else:
                self._trouble.ended(self)

    def notified(self, host: str) -> None:
        """An operator has had a host drain, or take tasks again."""
        self._told.pop(host, None)
        for each in self._news.get(host, ()):
            each.set()

    def close(self) -> None:
        """All reports that are open are to go to another HSC."""
        self._closed = True
        for host in self._news:
            self.notified(host)

    def _runs(self, request: h.ReportHostRequest) -> tuple[dict[str, list[LambdaSet]], set[str]]:
        """What each executor runs, and the digests of sets that are not known. One that has named none yet is no member of its pool."""
        runs, unknown = dict[str, list[LambdaSet]](), set[str]()
        for executor in request.executors:
            for digest in executor.lambda_sets:
                if (known := self._sets.get(digest)) is not None:
                    runs.setdefault(executor.executor_id, []).append(known)
                else:
                    unknown.add(digest)
        return runs, unknown

    def _note(self, request: h.ReportHostRequest, runs: Mapping[str, list[LambdaSet]], wait: float) -> None:
        cores = self._pools.of(request.pool)
        if request.leaves:
            cores.here.left(request.host)
            cores.left()
            return
        if cores.here.reported(request.host, runs, wait):
            cores.came()
        elif cores.here.gone:
            cores.left()

    async def _answer(
        self, request: h.ReportHostRequest, runs: Mapping[str, list[LambdaSet]], news: asyncio.Event, until: float
    ) -> h.ReportHostReply:
        while True:
            if self._closed:
                raise Unavailable("this HSC ends: report to another one")
            news.clear()
            drains, everywhere = await self._serve(request, runs)
            left = until - self._runtime.monotonic()
            decided = drains is not None and drains != request.drains
            if decided or not everywhere or request.leaves or left <= 0 or not await happens(news, left):
                return h.ReportHostReply(drains=request.drains if drains is None else drains, everywhere=everywhere)

    async def _serve(self, request: h.ReportHostRequest, runs: Mapping[str, list[LambdaSet]]) -> ServeAnswer:
        now, said = self._runtime.monotonic(), _said(request)
        told = self._told.get(request.host)
        if told is not None and told.holds(said, now) and not request.leaves:
            return told.answer
        sets = frozenset(each for of_executor in runs.values() for each in of_executor)
        answer = await self._tell(request, sets)
        if answer.everywhere:  # for how long it quarantines is said anew with each report
            again_at = now if request.quarantined else now + TOLD_S
            self._told[request.host] = _HostNews(said, request, sets, answer, again_at, now)
        if len(self._told) > MOST_TOLD:
            self._told = {host: each for host, each in self._told.items() if each.again_at > now}
        return answer

    async def _tell(self, request: h.ReportHostRequest, sets: frozenset[LambdaSet]) -> ServeAnswer:
        """Tells the store all that a host says."""
        answer = await self._store.serve(
            request.pool,
            request.known_us / US,
            request.host,
            {getattr(each, "lambda"): each.for_us / US for each in request.quarantined},
            serves(sets),
            executors=len(request.executors),
            why_not=request.why_not,
        )
        if request.process:
            with contextlib.suppress(AtfError):  # it is told again soon
                await self._store.announce([_role(request)], 0.0 if request.leaves else ALIVE_S)
        return answer

    async def _renew(self) -> None:
        """Tells the store that the hosts live whose reports are open; has those told anew of which it says something unexpected."""
        now, alike = self._runtime.monotonic(), dict[_Alike, dict[str, _HostNews]]()
        for host, told in self._told.items():
            if host in self._news or now < told.reported_until + NEXT_S:
                said = told.request
                alike.setdefault(_Alike(said.pool, said.known_us, not said.why_not), {})[host] = told
        for kind, some in alike.items():
            lambdas = _served_by(some.values()) if kind.alive else []
            renewed = await self._store.renew_hosts(kind.pool, kind.known_us / US, [*some], lambdas, alive=kind.alive)
            for host, told in some.items():
                if renewed.everywhere:
                    told.renewed_at = now
                decided = renewed.drains is not None and (host in renewed.drains) != told.answer.drains
                if (host in renewed.unknown or decided) and self._told.get(host) is told:
                    self.notified(host)
        roles = {_role(told.request) for some in alike.values() for told in some.values() if told.request.process}
        await self._store.announce(sorted(roles), ALIVE_S)


def _role(request: h.ReportHostRequest) -> LiveRole:
    """The controller that reports."""
    return LiveRole("controller", request.version, request.process)


def _served_by(hosts: Collection[_HostNews]) -> list[str]:
    """The lambdas that run on some hosts."""
    unknown = any(each.request.executors and not each.sets for each in hosts)
    return [*serves(frozenset[LambdaSet]().union(*(each.sets for each in hosts))), *[UNKNOWN] * unknown]


def _said(request: h.ReportHostRequest) -> bytes:
    """What a report says to the store, apart from what it asks."""
    what = h.ReportHostRequest()
    what.CopyFrom(request)
    for field in ("sets", "drains", "wait_us", "leaves", "version", "process"):
        what.ClearField(field)
    return what.SerializeToString(deterministic=True)


def serves(sets: frozenset[LambdaSet]) -> list[str]:
    """The lambdas of some sets, each once for every signature of it, behind a space; one that says none by its name alone."""
    signed = {f"{name} {digest}" for each in sets for name, digest in each.signatures.items()}
    names = {name for each in sets for name in each.signatures}
    unsigned = frozenset[str]().union(*(each.lambdas for each in sets)) - names
    return sorted(signed | unsigned)


def quarantined_lambdas(request: h.ReportHostRequest) -> list[str]:
    """The lambdas that a host quarantines by their names."""
    names = [getattr(each, "lambda") for each in request.quarantined]
    return [each for each in names if each != EVERYTHING]


def check(request: h.ReportHostRequest) -> None:
    """Every field but the lambdas of its sets.

    Raises:
        InvalidArgument: one breaks a rule.
    """
    if request.pool:
        check_pool(request.pool)
    if request.host:
        check_token("host", request.host)
    if request.process:
        check_token("process", request.process)
        check_token("version", request.version)
    _check_executors(request)
    check_count("quarantined lambdas", len(request.quarantined), MAX_BATCH)
    for each in request.quarantined:
        if (name := getattr(each, "lambda")) != EVERYTHING:
            check_lambda(name)
        if not 0 <= each.for_us <= MAX_KNOWN_US:
            raise InvalidArgument(f"quarantined {name!r}: for_us {each.for_us}; use 0 to {MAX_KNOWN_US} (a day)")
    if len(request.why_not) > MAX_WHY_NOT_CHARS:
        raise InvalidArgument(f"why_not: {len(request.why_not)} characters; at most {MAX_WHY_NOT_CHARS}")
    if not 1 <= request.known_us <= MAX_KNOWN_US:
        raise InvalidArgument(f"known_us {request.known_us}: use 1 to {MAX_KNOWN_US} (a day)")
    if not 0 <= request.wait_us <= MAX_WAIT_US:
        raise InvalidArgument(f"wait_us {request.wait_us}: use 0 to {MAX_WAIT_US} (60 s)")


def _check_executors(request: h.ReportHostRequest) -> None:
    check_count("executors", len(request.executors), MAX_EXECUTORS)
    check_count("sets", len(request.sets), MAX_SETS)
    for each in request.executors:
        check_token("executor_id", each.executor_id)
        check_count("lambda_sets of one executor", len(each.lambda_sets), MAX_SETS)
        for digest in each.lambda_sets:
            check_digest(digest, "lambda_set")
