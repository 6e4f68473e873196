"""Rows: one of two HSCs stands still; and a controller dies with claims that it has not passed on, beside another one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import Final, Self

from atf.task import US
from atf.verify.load import Load
from atf.verify.record import now_us
from proof.chaos.another import Another
from proof.chaos.bench import Struck, back, bench_of, judged, settled
from proof.chaos.frame import Progress, Row, Trial

NOTICED_S: Final = 2.0
"""Seconds within which work goes on."""
FROZEN_S: Final = 6.0
UP_S: Final = 60.0
_LOAD: Final = Load(rate=100, long_s=1.0, long_share=0.01, failing_share=0)
_HELD_S: Final = 0.5
"""Seconds that a controller stands still before it is killed: meanwhile it is answered, and passes nothing on."""


class Doubled(Struck):
    """A bench with another HSC and another controller; both controllers know both HSCs."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        try:
            await self._double()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        for each in getattr(self, "more", ()):
            await each.kill()
        await super().close()

    async def _double(self) -> None:
        addresses = self.cluster.addresses
        second = f"127.0.0.1:{_free_port()}"
        of_store = {**self.env, "ATF_REDIS_URL": self.cluster.redis_url}
        hsc = Another(of_store, ["hsc", "--listen", second], self.directory / "hsc-2.log")
        both = ["--hsc", f"{addresses['hsc']},{second}", "--frontend", addresses["frontend"]]
        words = ["controller", "--listen", "127.0.0.1:0", "--executors", str(self.executors), *both]
        controllers = [
            Another(self.env, [*words, "atf.verify.lambdas:app"], self.directory / f"controller-{number}.log")
            for number in (2, 3)
        ]
        self.more = [hsc, *controllers]
        self.second_hsc, self.controllers = hsc, controllers
        await self.cluster.halt("controller")  # it knows one HSC only
        for each in self.more:
            each.start()
        before = set(self.record.processes)
        async with asyncio.timeout(UP_S):
            while len(set(self.record.processes) - before) < 2 * self.executors:
                self.stream.send(8 * self.executors)
                await asyncio.sleep(0.2)
                self.poll()


async def _freeze(n: int, progress: Progress) -> Sequence[Trial]:
    more: list[Trial] = []
    async with bench_of(Doubled, progress, load=_LOAD) as world:
        async for number in progress.trials(n):
            await settled(world)
            pid = world.cluster.pid("hsc") if number % 2 else world.second_hsc.pid
            strike = await world.freeze("hsc", pid)
            await asyncio.sleep(FROZEN_S)
            world.thaw(strike)
            await back(world, strike, progress)
            gap = round(_longest(world, strike.at_us, strike.at_us + round(FROZEN_S * US)) / US, 3)
            late = [f"for {gap} s nothing started, the bar is {NOTICED_S:g} s"] if gap > NOTICED_S else []
            more.append({"late": late, "gap_s": gap})
        return judged(world, await world.drain(), progress, more)


def _longest(world: Doubled, since_us: int, until_us: int) -> int:
    """The longest time in which no run began, in µs."""
    begins = sorted(run.at_us for run in world.record.begun if since_us < run.at_us < until_us)
    return max(after - before for before, after in pairwise([since_us, *begins, until_us]))


async def _undelivered(n: int, progress: Progress) -> Sequence[Trial]:
    more: list[Trial] = []
    async with bench_of(Doubled, progress, load=_LOAD) as world:
        async for number in progress.trials(n):
            await settled(world)
            victim = world.controllers[number % 2]
            strike = await world.freeze("controller", victim.pid)
            await asyncio.sleep(_HELD_S)
            killed_us = now_us()
            await victim.kill_alone()
            world.thaw(strike)
            await back(world, strike, progress)
            waited = {key for key, at_us in world.stream.called.items() if strike.at_us <= at_us < killed_us}
            began = {run.task_id: run.at_us for run in reversed(world.record.begun) if run.task_id in waited}
            took = round(max((at_us - killed_us for at_us in began.values()), default=0) / US, 3)
            late = [f"a task began {took} s after the kill, the bar is {NOTICED_S:g} s"] if took > NOTICED_S else []
            undelivered = sum(at_us > killed_us for at_us in began.values())
            progress.say(f"{undelivered} of {len(waited)} tasks had not begun when it was killed")
            more.append({"late": late, "back_s": max(took, 0.0), "undelivered": undelivered})
            victim.start()
        if more and not sum(each["undelivered"] for each in more):
            more[0]["late"] += ["no trial met a controller with claims that it had not passed on"]
        return judged(world, await world.drain(), progress, more)


def _free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


ROWS: Final = [
    Row(
        name="freeze-hsc",
        what=f"SIGSTOP for {FROZEN_S:g} s to one of two HSCs, under 100 tasks/s",
        bar=f"never {NOTICED_S:g} s without a start; lost 0, concurrent 0",
        full=20,
        batch=10,
        run=_freeze,
    ),
    Row(
        name="undelivered",
        what="SIGKILL to one of two controllers with claims that it has not passed on, under 100 tasks/s",
        bar=f"these tasks start within {NOTICED_S:g} s; lost 0, concurrent 0",
        full=20,
        batch=10,
        run=_undelivered,
    ),
]
