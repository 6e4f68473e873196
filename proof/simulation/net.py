"""The network between the processes: packets are late, lost, doubled, and outlive whoever sent them.

A call is two packets, there and back. It may be done and its answer lost; done long after its caller has given up; done twice;
or never arrive. A process that is down refuses; one that is frozen answers after its thaw; one that is cut off is silent.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from atf.errors import AtfError, DeadlineExceeded, Unavailable

from .calls import STREAMED, way
from .chronicle import Chronicle
from .loop import PROCESS, SimLoop, SimProcess
from .streams import streamed

LATEST_S: Final = 40.0
"""Beyond every lease and every timeout."""
SELDOM: Final = 4
ROUGH: Final = 4
"""So many times as likely are the first SELDOM calls of each name disturbed: else hardly anything would happen to what is seldom called."""


LONG_POLL: Final = "rpc", "next_claims"
"""The call whose connections are pinged so often that a lost packet is noticed long before the call's time is over."""
NOTICED_S: Final = 1.9
"""Within so many seconds."""

TARDY_S: Final = 3.0, 9.0
"""Seconds that an answer of the long poll is late which is to be: more than its asker waits, less than a lease."""

KINDS: Final = (
    *(f"{carried} {fate}" for carried in ("rpc", "store") for fate in ("lost", "late", "slow", "doubled", "cut off")),
    *(f"{carried} answer {fate}" for carried in ("rpc", "store") for fate in ("lost", "late", "slow", "cut off")),
    *(f"notification {fate}" for fate in ("lost", "late", "slow")),
)
"""Every kind of fault of the network; a lost answer is a call that was done and is reported as failed."""


@dataclass
class Weather:
    """How the network behaves: chances per packet."""

    slow: float = 0.0
    late: float = 0.0
    lost: float = 0.0
    doubled: float = 0.0


class Net:
    """Carries calls to processes by their address.

    Attributes:
        weather: of now.
        cut: pairs of hosts or addresses between which nothing passes.
        deaf: hosts that no answer reaches from elsewhere; what they ask for is done.
        unheard: hosts whose next claims are made, and their answer lost: they are asked for again, and so known late.
        tardy: hosts whose next claims are made, and their answer comes seconds later.
        undelivered: called once, with the process that asked, in place of delivering the next answer that brings claims.
    """

    def __init__(self, loop: SimLoop, chance: random.Random, chronicle: Chronicle) -> None:
        self.weather = Weather()
        self.cut: set[frozenset[str]] = set()
        self.deaf: set[str] = set()
        self.unheard: set[str] = set()
        self.tardy: set[str] = set()
        self.undelivered: Callable[[SimProcess, Any], None] | None = None
        self._loop = loop
        self._chance = chance
        self._chronicle = chronicle
        self._at: dict[str, SimProcess] = {}
        self._handling: dict[SimProcess, set[asyncio.Task[Any]]] = {}
        self._awaited: dict[SimProcess, list[asyncio.Future[Any]]] = {}
        self.made: Counter[tuple[str, str]] = Counter()

    def serve(self, address: str, process: SimProcess) -> None:
        """A process answers at an address from now on."""
        self._at[address] = process

    def answers(self, address: str) -> bool:
        """Whether somebody serves at an address now, and is not frozen."""
        server = self._at.get(address)
        return server is not None and server.running

    def died(self, process: SimProcess) -> None:
        """Its connections end: its callers see it, and what was being done for it is given up, as servers do; mostly."""
        for answer in self._awaited.pop(process, []):
            if self._chance.random() < 0.7:
                gone = Unavailable(f"{process.name}: connection reset")
                self._loop.later(self._chance.uniform(0.0005, 0.02), partial(self._settle, answer, gone))
        for task in self._handling.pop(process, set()):
            if self._chance.random() < 0.7:
                self._loop.later(self._chance.uniform(0.001, 0.05), task.cancel)

    async def call(
        self, address: str, name: str, perform: Callable[[], Awaitable[Any]], timeout: float, *tasks: str
    ) -> Any:
        """Carries one call to whoever serves at the address.

        Args:
            address: of the server.
            name: of the call, for the story.
            perform: does it, in the server's process.
            timeout: seconds that the caller waits.
            tasks: what it is about, for the story.

        Raises:
            Unavailable, DeadlineExceeded: it was not answered; it may have been done.
        """
        caller = PROCESS.get()
        assert caller is not None
        answer: asyncio.Future[Any] = self._loop.create_future()
        kind = "store" if address == "store" else "rpc"
        self.made[kind, name] += 1
        rough = ROUGH if self.made[kind, name] <= SELDOM else 1
        copies = 1
        if self._chance.random() < rough * self.weather.doubled:
            copies = 2
            self._disturb(kind, "doubled", name, name, *tasks)
        for copy in range(copies):
            delay = self._delay(kind, name, tasks, rough, extra=copy)
            if delay is not None:
                self._loop.later(
                    delay, lambda: self._deliver(caller, address, kind, name, perform, answer, timeout, tasks, rough)
                )
            elif (kind, name) == LONG_POLL:
                self._notice(answer, name)
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise DeadlineExceeded(f"{name}: no answer from {address} within {timeout:g} s") from None

    def tell(self, address_from: str, process: SimProcess, receive: Callable[[], object], kind: str, name: str) -> None:
        """One packet to a process, without an answer."""
        delay = self._delay(kind, name, ())
        if delay is None or self._is_cut(address_from, process):
            return

        def arrive() -> None:
            if process.alive:
                self._loop.start(process, _run(receive))

        self._loop.later(delay, arrive)

    def keep(self, stream: Any) -> None:
        """Nothing of a stream is finalized by the garbage collector, which follows no seed."""
        self._loop.graves.append(stream)

    def hang_up(self, server: SimProcess, close: Callable[[], Awaitable[None]]) -> None:
        """The caller of a stream has heard enough: the server sees that at once, if it lives."""
        if server.alive:
            self._loop.start(server, _run(close))

    def _delay(self, kind: str, name: str, tasks: tuple[str, ...], rough: int = 1, extra: int = 0) -> float | None:
        """Seconds a packet takes; None: it is lost."""
        roll, weather = self._chance.random() / rough, self.weather
        if roll < weather.lost:
            self._disturb(kind, "lost", name, name, *tasks)
            return None
        if roll < weather.lost + weather.late:
            seconds = self._chance.uniform(2.5, LATEST_S)
            self._disturb(kind, "late", name, f"{name} by {seconds:.1f} s", *tasks)
            return seconds
        if roll < weather.lost + weather.late + weather.slow:
            seconds = self._chance.uniform(0.05, 2.5)
            self._disturb(kind, "slow", name, f"{name} by {seconds:.2f} s", *tasks)
            return seconds
        return self._chance.choice((0.0002, 0.0005, 0.002)) + extra * self._chance.uniform(0, 0.1)

    def _disturb(self, kind: str, how: str, name: str, text: str, *tasks: str) -> None:
        self._chronicle.fault(f"{kind} {how}", text, *tasks)
        self._chronicle.calls[way(kind, how, name)] += 1

    def _is_cut(self, one: str, other: SimProcess) -> bool:
        return any(one in pair and (other.host in pair or other.name.split(".")[0] in pair) for pair in self.cut)

    def _apart(self, caller: SimProcess, server: SimProcess) -> bool:
        if not self.cut:
            return False  # mostly so
        ends = {caller.host, caller.name.split(".")[0]}
        return any(self._is_cut(each, server) for each in ends)

    def _deliver(
        self,
        caller: SimProcess,
        address: str,
        kind: str,
        name: str,
        perform: Callable[[], Awaitable[Any]],
        answer: asyncio.Future[Any],
        timeout: float,
        tasks: tuple[str, ...],
        rough: int,
    ) -> None:
        server = self._at.get(address)
        if server is not None and self._apart(caller, server):
            self._chronicle.faults[f"{kind} cut off"] += 1
            return
        if server is None or not server.alive:
            self._settle(answer, Unavailable(f"{name}: {address} refuses connections"))
            return
        handling = self._loop.start(server, _run(perform))
        waiting = self._awaited.setdefault(server, [])
        waiting[:] = [each for each in waiting if not each.done()]
        waiting.append(answer)
        mine = self._handling.setdefault(caller, set())
        mine.add(handling)
        # The server knows the caller's deadline too, unless its clocks or its threads are busy.
        if self._chance.random() < 0.8:
            self._loop.later(timeout, handling.cancel)

        def done(task: asyncio.Task[Any]) -> None:
            mine.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            outcome = task.result() if error is None else error
            if error is not None and not isinstance(error, AtfError):
                self._chronicle.crashed.append(f"{name} raised {error!r}")
            if not caller.alive or self._apart(caller, server):
                return
            if caller.host in self.deaf and server.host != caller.host:
                self._chronicle.faults[f"{kind} answer cut off"] += 1
                return
            if (kind, name) == LONG_POLL and not isinstance(outcome, BaseException) and (brought := claims_in(outcome)):
                if caller.host in self.unheard:
                    self.unheard.discard(caller.host)
                    self._disturb(f"{kind} answer", "lost", name, name, *tasks)
                    self._notice(answer, name)
                    return
                if caller.host in self.tardy:
                    self.tardy.discard(caller.host)
                    seconds = self._chance.uniform(*TARDY_S)
                    self._disturb(f"{kind} answer", "late", name, f"{name} by {seconds:.1f} s", *tasks)
                    self._loop.later(seconds, lambda: self._settle(answer, outcome))
                    return
                if self.undelivered is not None:
                    instead, self.undelivered = self.undelivered, None
                    instead(caller, brought)
                    self._notice(answer, name)
                    return
            delay = self._delay(f"{kind} answer", name, tasks, rough)
            if delay is not None:
                self._loop.later(delay, lambda: self._settle(answer, outcome))
            elif (kind, name) == LONG_POLL:
                self._notice(answer, name)

        handling.add_done_callback(done, context=self._loop.world)

    def _notice(self, answer: asyncio.Future[Any], name: str) -> None:
        """The connection's pings find that it is broken."""
        broken = Unavailable(f"{name}: the connection broke")
        self._loop.later(self._chance.uniform(0.01, NOTICED_S), partial(self._settle, answer, broken))

    @staticmethod
    def _settle(answer: asyncio.Future[Any], outcome: Any) -> None:
        if answer.done():
            return
        if isinstance(outcome, BaseException):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)


def claims_in(outcome: tuple[Any, bytes]) -> list[Any]:
    """The claims that an answer of NextClaims brings."""
    kind, data = outcome
    return list(kind.FromString(data).claims)


async def _run(call: Callable[[], Any]) -> Any:
    made = call()
    return await made if isinstance(made, Awaitable) else made


async def _each(messages: list[Any]) -> AsyncIterator[Any]:
    for each in messages:
        yield each


class Wire:
    """A role as its callers reach it: each message is encoded and decoded on the way."""

    def __init__(self, net: Net, addresses: Callable[[], str], roles: dict[str, Any]) -> None:
        self._net = net
        self._address = addresses
        self._roles = roles

    def __getattr__(self, name: str) -> Any:
        if name in STREAMED:
            return lambda request, *, timeout: streamed(self._net, self._address(), self._roles, name, request, timeout)

        async def call(request: Any, *, timeout: float = 10) -> Any:
            address, stream = self._address(), isinstance(request, AsyncIterable)
            sent = [
                (type(each), each.SerializeToString())
                for each in ([each async for each in request] if stream else [request])
            ]

            async def perform() -> Any:
                messages = [kind.FromString(data) for kind, data in sent]
                asked = _each(messages) if stream else messages[0]
                reply = await getattr(self._roles[address], name)(asked, timeout=timeout)
                return type(reply), reply.SerializeToString()

            kind, reply = await self._net.call(address, name, perform, timeout)
            return kind.FromString(reply)

        return call
