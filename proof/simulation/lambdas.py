"""What the simulated service has run: lambdas that write down their own runs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import atf
from atf.executor.output import events
from atf.rpc import frontend_pb2 as f
from atf.rpc.task_pb2 import JSON
from atf.verify.events import Began, Ended

from . import deploys, stops
from .loop import PROCESS

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")
app = atf.App("sim")
here: list[World] = []
"""The world that runs."""


def last_words(task_id: str, run: int) -> str:
    """What a run that does not end well says into its log, which is too long to lie in a record."""
    return f"run {run} of {task_id} has done what it could, and that was not enough to end it well"


class _Run:
    """One run: writes its start and its end down, whatever happens in between, and what it returned."""

    def __init__(self, ctx: atf.Context, most: int = 0) -> None:
        process = PROCESS.get()
        assert process is not None
        self._ctx, self._process, self._world = ctx, process, here[-1]
        self._together: tuple[str, int] = ("steps", most)
        nonce: str = ctx._cancelled.nonce  # type: ignore[attr-defined]  # the flag is the task as its executor holds it
        self._token = ctx.task_id, ctx.fence, nonce
        self.ok = False

    def __enter__(self) -> Self:
        world, ctx = self._world, self._ctx
        world.chronicle.say(f"RUN {ctx.run} begins, claim {ctx.fence}", ctx.task_id)
        began = Began(
            world.now_us(),
            ctx.task_id,
            ctx.fence,
            self._process.name,
            world.server.shown_us(ctx.task_id),
            *self._together,
            self._token[2],
        )
        world.chronicle.event(began)
        world.server.counts.began(self._token, self._process.name)
        return self

    def gives(self, value: T) -> T:
        """What the run returns, which is well."""
        self._world.server.answers.returned(self._ctx.task_id, self._ctx.fence, value)
        self.ok = True
        return value

    def __exit__(self, *_: object) -> None:
        world, ctx = self._world, self._ctx
        world.chronicle.say(f"RUN {ctx.run} ends, {'well' if self.ok else 'not well'}", ctx.task_id)
        if not self.ok:
            events.say(logging.INFO, last_words(ctx.task_id, ctx.run), {})
        world.chronicle.event(Ended(world.now_us(), ctx.task_id, ctx.fence, self._process.name, self.ok))
        world.server.counts.ended(self._token)


STEPS: Final = 4
"""Steps that may run at once, where there is a limit."""
_LIMITED: Final = 6
"""In one of so many seeds there is: whatever waits for a limit has the store looked at often, which takes the simulation long."""


async def _step(ctx: atf.Context, seconds: float, fails: int, most: int = 0) -> int:
    with _Run(ctx, most) as run:
        await asyncio.sleep(seconds)
        if ctx.attempt <= fails:
            raise RuntimeError(f"attempt {ctx.attempt} fails")
        return run.gives(ctx.attempt)


@app.task(max_attempts=5, backoff=atf.Backoff(1, factor=2, max=8), search=["fails"])
async def step(ctx: atf.Context, seconds: float, fails: int) -> int:
    """Takes its time; its first attempts fail."""
    return await _step(ctx, seconds, fails)


@app.task(max_attempts=5, backoff=atf.Backoff(1, factor=2, max=8), search=["fails"], max_running=STEPS, rate=1)
async def limited(ctx: atf.Context, seconds: float, fails: int) -> int:
    """The same, a few at a time."""
    return await _step(ctx, seconds, fails, STEPS)


def steps_of(seed: int) -> atf.Lambda[[float, int], int]:
    """Whichever of the two a seed is played with."""
    return limited if seed % _LIMITED == 1 else step


@app.task
async def hopeless(ctx: atf.Context) -> None:
    """Fails for good, unless it is started afresh."""
    with _Run(ctx) as run:
        await asyncio.sleep(0.05)
        if ctx.run == 1:
            raise atf.Fatal("no use")
        run.ok = True


@app.task(timeout=2, max_attempts=3, backoff=atf.Backoff(1))
async def stubborn(ctx: atf.Context, seconds: float) -> None:
    """Does not end when it is told to, like a `def` that nothing can stop."""
    with _Run(ctx) as run:
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        run.ok = True


@app.task
async def summed(ctx: atf.Context, batch: dict[str, Any]) -> int:
    """What runs when a batch has ended."""
    with _Run(ctx) as run:
        return run.gives(int(batch["round"]))


@app.task
async def ticked(ctx: atf.Context, seconds: float, fails: int) -> None:
    """What a job's ticks run. Two of them share a key of first_time."""
    with _Run(ctx) as run:
        key = f"pair {(ctx.tick + 1) // 2}"
        here[-1].server.firsts[key, ctx.task_id].append(await ctx.first_time_async(key))
        await asyncio.sleep(seconds)
        if ctx.attempt <= fails:
            raise RuntimeError(f"attempt {ctx.attempt} fails")
        run.ok = True


@app.task(stop_on_fatal=True, max_attempts=3)
async def strict(ctx: atf.Context, seconds: float, fatal: bool) -> str:
    """Stops its ordering key where it fails for good, which it does in its first run if it is to."""
    with _Run(ctx) as run:
        await asyncio.sleep(seconds)
        if fatal and ctx.run == 1:
            raise atf.Fatal("not before somebody has looked at it")
        return run.gives(f"run {ctx.run}")


@app.task
async def raw(ctx: atf.Context) -> bytes:
    """What it returns is no JSON."""
    with _Run(ctx) as run:
        return run.gives(b"\x00\xff")


@app.task
async def chewed(ctx: atf.Context, food: str) -> None:
    """What would follow it in a chain."""
    with _Run(ctx) as run:
        run.ok = True


@app.task(max_attempts=9, backoff=atf.Backoff(1))
async def leaver(ctx: atf.Context, plan: str) -> str:
    """Ends each run as its plan says; see stops.py."""
    with _Run(ctx) as run:
        await stops.leave(here[-1], stops.step_of(plan, ctx.run))
        return run.gives(plan)


async def painted(ctx: atf.Context, colour: str) -> str:
    """What every release of the lambda in deploys.py does. Each second one of its tasks fails in its first attempt."""
    with _Run(ctx) as run:
        await asyncio.sleep(0.5)
        if ctx.attempt == 1 and ctx.task_id[-1] in "1357":
            raise RuntimeError("this attempt fails")
        return run.gives(colour)


def lambdas_of(seed: int, release: int) -> dict[str, atf.Lambda[..., Any]]:
    """All lambdas of a release."""
    found = dict(app.lambdas)
    if deploys.has_deploys(seed):
        found[deploys.NAME] = deploys.release(release)
    return found


def plan_of(payload: bytes) -> str:
    """A leaver's plan."""
    return str(leaver.decode(payload, JSON)["plan"])


@app.task
async def poison(ctx: atf.Context) -> None:
    """Ends its process each time."""
    with _Run(ctx):
        await asyncio.sleep(0.2)
        process = PROCESS.get()
        assert process is not None
        here[-1].end(process, 139, f"poisoned by {ctx.task_id}")
        await asyncio.sleep(1)


def _placement_of(seed: int) -> f.Placement:
    return {3: f.STICKY, 5: f.SPREAD}.get(seed % _LIMITED, f.ANY)


def affinity_of(seed: int, number: int) -> str:
    """The affinity key of a seed's task; "": it has none."""
    return f"near-{number % 4}" if _placement_of(seed) == f.STICKY and number % 3 else ""


def specs_of(seed: int, release: int = 0) -> list[f.LambdaSpec]:
    """All lambdas of a release, as they are registered with a seed: in some, tasks prefer hosts."""
    specs = [each.spec() for each in lambdas_of(seed, release).values()]
    for each in specs:
        each.placement = _placement_of(seed)
    return specs
