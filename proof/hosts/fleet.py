"""Very many worker hosts in one process: a real controller each, with a connection of its own, and executors that run nothing."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from atf.config.settings import ControllerSettings, Timing
from atf.errors import AtfError
from atf.rpc import api, controller_pb2 as c, hsc_pb2 as h, task_pb2 as t
from atf.rpc.channel import Channel
from atf.rpc.stubs import HSCStub
from atf.runtime import SystemRuntime, end, new_id
from atf.task import US
from atf.testing.wiring import Wiring

LAMBDA: Final = "hosts/noop"
SIGNATURE: Final = "none"
ROOM: Final = 16
"""Tasks that an executor asks for."""
WAIT_S: Final = 60.0
RENEWED_S: Final = 0.7
"""Age of an ask from which on `again` is its renewal and no sign that somebody was woken for a task."""
_NONCE_BITS: Final = 64


@dataclass
class FleetAnswers:
    """What the hosts have heard since it was last cleared.

    Attributes:
        starts: by task when an executor had it, in seconds of the monotonic clock.
        woken: hosts that were answered before it was time to ask anew.
        answers: how many answers there were of each kind.
    """

    starts: dict[str, float] = field(default_factory=dict)
    woken: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        """Forgets all."""
        for each in (self.starts, self.woken, self.answers):
            each.clear()


class _NotedHsc(HSCStub):
    """A host's HSC, which notes what it answers."""

    def __init__(self, channel: Channel, host: str, heard: FleetAnswers) -> None:
        super().__init__(channel)
        self._host, self._heard = host, heard

    async def next_claims(self, request: h.NextClaimsRequest, *, timeout: float = 70) -> h.NextClaimsReply:
        asked = time.monotonic()
        reply = await super().next_claims(request, timeout=timeout)
        kind = "claims" if reply.claims else "again" if reply.again else "unknown set" if reply.unknown_set else "none"
        self._heard.answers[kind] += 1
        if reply.claims or (reply.again and time.monotonic() - asked < RENEWED_S):
            self._heard.woken.add(self._host)
        return reply


class Fleet:
    """The hosts.

    Args:
        open_channel: opens a connection to the HSCs, one for each host.
        hosts: how many.
        executors: of each.
    """

    def __init__(self, open_channel: Callable[[], Channel], *, hosts: int, executors: int) -> None:
        self.heard = FleetAnswers()
        self._runtime, self._timing = SystemRuntime(), Timing()
        self._channels = [open_channel() for _ in range(hosts)]
        self._hosts = [f"host-{number}" for number in range(hosts)]
        self._executors = executors
        self._duties: list[asyncio.Task[Any]] = []

    async def start(self, each_s: float) -> None:
        """Starts all, one after the other."""
        wiring = Wiring(self._runtime, self._timing)
        for host, channel in zip(self._hosts, self._channels, strict=True):
            hsc = _NotedHsc(channel, host, self.heard)
            controller = wiring.controller(hsc, ControllerSettings(), host=host)
            self._spawn(controller.run(), host)
            for number in range(self._executors):
                self._spawn(self._execute(f"{host}-e{number}", controller, hsc), f"{host} {number}")
            await asyncio.sleep(each_s)

    async def stop(self) -> None:
        """Ends all, without a word."""
        await end(self._duties)
        for each in self._channels:
            await each.close()

    def _spawn(self, work: Any, name: str) -> None:
        self._duties.append(self._runtime.spawn(work, name=name))

    async def _execute(self, executor_id: str, controller: api.Controller, hsc: api.HSC) -> None:
        ack, call, known = 0, 0, 0
        while True:
            call += 1
            request = c.NextWorkRequest(
                executor_id=executor_id,
                ack=ack,
                max_tasks=ROOM,
                wait_us=round(WAIT_S * US),
                lambdas=[] if known else [LAMBDA],
                signatures=[] if known else [SIGNATURE],
                set=1,
                boot_id=self._runtime.boot_id(),
                call=call,
                nonce=new_id(self._runtime.random, _NONCE_BITS),
                heartbeat_timeout_us=self._timing.heartbeat_timeout_us,
            )
            try:
                reply = await controller.next_work(request)
            except AtfError:
                await asyncio.sleep(1)
                continue
            known, ack = reply.set, max(reply.number, ack)
            if reply.claims:
                await self._end(executor_id, hsc, reply.claims)

    async def _end(self, executor_id: str, hsc: api.HSC, claims: Sequence[t.Claim]) -> None:
        now = time.monotonic()
        self.heard.starts.update({each.task_id: now for each in claims})
        results = [
            h.Result(claim=t.ClaimRef(task_id=each.task_id, token=each.token), outcome=t.SUCCEEDED) for each in claims
        ]
        await hsc.set_results(h.SetResultsRequest(executor_id=executor_id, results=results))
