"""The simulated service: schedules tasks by the SDK over two minutes, cancels some, starts some afresh, pauses a lambda."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import atf
from atf.client import AsyncClient
from atf.errors import AtfError
from atf.process.role import Process as Frame
from atf.rpc import frontend_pb2 as f
from atf.task import US
from atf.verify.events import Accepted, Called, Keyed

from . import batches, cores, deploys, errands, jobs, keyed, lists, stops, unique
from .asking import SimAsker
from .caller import attempt
from .lambdas import affinity_of, hopeless, poison, specs_of, steps_of, stubborn
from .loop import SimProcess
from .net import LATEST_S

if TYPE_CHECKING:
    from .world import World

TASKS: Final = 36
SPREAD_S: Final = 100.0
COLLECTION: Final = {"team": "web"}
"""The labels of tasks that gates are about."""
OWN: Final = "own"
"""The label of a task that no other one has."""
ORDERED: Final = "one-after-the-other"
CROWD: Final = "one-at-a-time"
CROWD_LIMIT: Final = 1


class SimService:
    """One process that uses ATF.

    Attributes:
        ids: the stored ids of every task it asked for.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.ids: list[str] = []
        self.done = asyncio.Event()
        self._gated = 0.0
        """The same of calls to set a gate."""
        self._paused = 0.0
        """The second in which the last call to pause a lambda had ended: it is not sent again after that."""

    async def run(self, frame: Frame, _process: SimProcess) -> None:
        """Asks for everything, then is done; it goes on to live."""
        from .world import PARTITIONS

        world, chance = self._world, self._world.chance
        client = AsyncClient("the service", timeout=40, frontend=world.wire_frontend(), runtime=frame.runtime)
        self._partitions = PARTITIONS
        self._asker = SimAsker(world, client)
        frontend = world.wire_frontend()
        request = f.RegisterLambdasRequest(lambdas=specs_of(world.seed))
        await frame.retry_until_available(lambda: frontend.register_lambdas(request), "the frontend")
        if not world.server.durable:
            frame.runtime.spawn(self._register_anew(frame, frontend, request), name="register")
        work = []
        if cores.has_cores(world.seed):
            work.append(frame.runtime.spawn(self._cores(client), name="cores"))
        if batches.has_batch(world):
            work.append(frame.runtime.spawn(batches.life(world, client), name="batch"))
        if jobs.has_job(world):
            work.append(frame.runtime.spawn(jobs.life(world, client), name="job"))
        if keyed.has_key(world):
            work.append(frame.runtime.spawn(keyed.life(world, client), name="key"))
        if deploys.has_deploys(world.seed):
            work.append(frame.runtime.spawn(deploys.life(world, client), name="deploys"))
        if stops.has_stops(world.seed):
            work.append(frame.runtime.spawn(stops.life(world, client), name="stops"))
        if errands.has_chain(world):
            work.append(frame.runtime.spawn(errands.chain(world, client), name="chain"))
        if errands.polled(world.seed):
            frame.runtime.spawn(errands.poll(world), name="poll")
        work.append(frame.runtime.spawn(errands.some(world, client), name="errands"))
        for number in range(TASKS):
            await asyncio.sleep(chance.expovariate(TASKS / SPREAD_S))
            work.append(frame.runtime.spawn(self._life(client, number), name=f"task {number}"))
            if chance.random() < 0.03:
                work.append(frame.runtime.spawn(self._pause(client), name="pause"))
            if chance.random() < 0.04:
                work.append(frame.runtime.spawn(self._gate(client), name="gate"))
        await asyncio.wait(work)
        if self._paused:
            # A copy of a call to pause may still be under way, and then one of the call to the store that it leads to. Whoever
            # paused a lambda looks again whether it goes on.
            await asyncio.sleep(max(0.0, self._paused + 2 * LATEST_S - world.now_us() / 1e6))
            while not await self._try("resume", "", client.resume(steps_of(self._world.seed).name)):
                await asyncio.sleep(1)
        if self._gated:
            await asyncio.sleep(max(0.0, self._gated + 2 * LATEST_S - world.now_us() / 1e6))
            while not await self._try(
                "lift", "", client.lift_gate(steps_of(self._world.seed).name, labels=COLLECTION, who="s")
            ):
                await asyncio.sleep(1)
        await self._asker.of_all(self.ids)
        self.done.set()
        await asyncio.Event().wait()

    async def _register_anew(self, frame: Frame, frontend: Any, request: f.RegisterLambdasRequest) -> None:
        """Whoever deploys registers once more what a store knows nothing of any more that has come back with nothing.

        And again whenever it comes back from then on: it may have lost its last second, and that word with it.
        """
        server = self._world.server
        known = server.run_id
        while True:
            await asyncio.sleep(2)
            if known != (known := server.run_id) and server.emptied:
                await frame.retry_until_available(lambda: frontend.register_lambdas(request), "the frontend")

    async def _life(self, client: AsyncClient, number: int) -> None:
        """One task: asked for, and perhaps cancelled or started afresh later."""
        world, chance = self._world, self._world.chance
        key = f"k{number}"
        options: dict[str, Any] = {"key": key, "priority": chance.choice(("high", "normal", "low"))}
        options |= lists.options_of(number)
        if chance.random() < 0.5:
            options["labels"] = COLLECTION
        if number % 4 == 1:
            options["labels"] = {**options.get("labels", {}), OWN: key}
        held, routing, limit = chance.random(), key, 0
        if held < 0.15:
            options["ordering_key"], routing, limit = ORDERED, ORDERED, 1
        elif held < 0.35:
            policy = chance.choice(("queue", "queue", "skip", "cancel_running"))
            options["concurrency_key"], routing, limit = atf.Concurrency(CROWD, CROWD_LIMIT, policy), CROWD, CROWD_LIMIT
        elif held < 0.5 and world.server.durable:  # a server that forgets may forget a window
            options["unique"] = unique.option(chance)
            routing = options["unique"].key
        elif chance.random() < 0.4:
            options["delay"] = chance.choice((0.5, 5.0, 20.0))
        if affinity := affinity_of(world.seed, number):
            options["affinity_key"] = affinity
            routing = affinity if routing == key else routing
        task_id = f"{zlib.crc32(routing.encode()) % self._partitions}-{key}"
        self.ids.append(task_id)
        world.chronicle.event(Called(world.now_us(), task_id))
        task = self._task(options)
        if limit:
            group = f"{getattr(task.request.spec, 'lambda')} {routing}"  # keys of different lambdas are different keys
            world.chronicle.event(Keyed(world.now_us(), task_id, group, limit, routing == ORDERED))
        try:
            told_id = await self._schedule(client, task)
        except AtfError as error:
            world.chronicle.say(f"Schedule failed: {error}", task_id)
        else:
            if told_id != task_id:
                task_id = self._stands_for(task_id, told_id, options)
            else:
                stored = world.server.stored[task_id]
                due_us = world.server.windows.due_us.get(task_id, stored.time_us + round(options.get("delay", 0) * US))
                world.chronicle.event(Accepted(world.now_us(), task_id, due_us, stored.loop_us))
            world.chronicle.say("Schedule answered", task_id)
        await self._asker.sometimes(task_id, chance)
        if chance.random() < 0.25:
            await asyncio.sleep(chance.choice((0.0, 0.1, 1.0, 4.0, 12.0)))
            await self._cancel(client, task_id, options)
        for _ in range(3):
            await asyncio.sleep(chance.uniform(2, 10))
            status = world.server.field(task_id, "s") or ""
            if status == "FATAL_FAILURE" and chance.random() < 0.3:
                name = (world.server.field(task_id, "q") or "").rpartition(":")[0]
                await self._try(
                    "redrive", task_id, client.redrive(name, dry_run=False, rate=chance.choice((0, 2)), who="s")
                )
            elif status in {"CANCELLED", "FATAL_FAILURE"} and chance.random() < 0.6:
                await self._change("retry", task_id, client.retry)

    async def _cancel(self, client: AsyncClient, task_id: str, options: dict[str, Any]) -> None:
        """By its id, or by a filter that it alone matches."""
        if own := options.get("labels", {}).get(OWN):
            await self._change("cancel matching", task_id, partial(_cancelled_by_label, client, own))
        else:
            await self._change("cancel", task_id, client.cancel)

    async def _schedule(self, client: AsyncClient, task: Any) -> str:
        """By the SDK; or by Schedule itself, as programs call that do not use it. Returns the id of the task that stands for the call."""
        if self._world.chance.random() > 0.1:
            return str((await client.schedule(task)).id)
        frontend = self._world.wire_frontend()
        reply = await client._calls.repeat(lambda timeout: frontend.schedule(task.request, timeout=timeout))
        return str(reply.id)

    def _stands_for(self, task_id: str, told_id: str, options: dict[str, Any]) -> str:
        """The call was answered with the task of another one: of its unique key, if it has one."""
        made = self._world.server.windows.made
        if "unique" not in options or not any(told_id in ids for ids in made.values()):
            self._world.chronicle.odd.append(f"{task_id}: Schedule was answered with {told_id}")
        return told_id

    def _task(self, options: dict[str, Any]) -> Any:
        chance = self._world.chance
        kind = chance.random()
        if kind < 0.06:
            return hopeless.options(**options).prepare()
        if kind < 0.08:
            return poison.options(**options).prepare()
        if kind < 0.13:
            return stubborn.options(**options).prepare(chance.choice((0.5, 3.0, 30.0)))
        if chance.random() < 0.1:
            options["max_attempts"] = 1
        seconds = chance.choice((0.02, 0.5, 3.0, 10.0, 25.0, 25.0))
        fails = chance.choice((0, 0, 0, 1, 2) if seconds < 5 else (0, 0, 0, 0, 1))
        return steps_of(self._world.seed).options(**options).prepare(seconds, fails)

    async def _cores(self, client: AsyncClient) -> None:
        """The pool is cut into cores, and later into fewer."""
        for settings in (cores.FIRST, cores.THEN):
            call: dict[str, Any] = {
                "cores": settings.cores,
                "reserve": settings.reserved,
                "lookahead": settings.lookahead,
                "max_retries": settings.max_retries,
                "hand_over": settings.hand_over_us / US,
                "multiplexed_timeout": settings.multiplexed_timeout_us / US,
                "rotation": settings.rotation_us / US,
            }
            while not await self._try("set_capacity", "", client.set_capacity(cores.POOL, **call)):
                await asyncio.sleep(1)
            await asyncio.sleep(SPREAD_S / 2)

    async def _pause(self, client: AsyncClient) -> None:
        name = steps_of(self._world.seed).name
        await self._try("pause", "", client.pause(name))
        self._paused = self._world.now_us() / 1e6
        await asyncio.sleep(self._world.chance.uniform(1, 12))
        while not await self._try("resume", "", client.resume(name)):
            await asyncio.sleep(1)

    async def _gate(self, client: AsyncClient) -> None:
        """Keeps back, delays, thins out or drops a collection for a while. What is kept must go on afterwards, like all the others."""
        name, chance = steps_of(self._world.seed).name, self._world.chance
        kinds: list[dict[str, Any]] = [{"action": "pause"}, {"action": "admit", "share": 0.5}, {"action": "drop"}]
        kind = chance.choice([*kinds, {"action": "pause", "until": 5.0}, {"action": "delay", "by": 3.0}])
        await self._try("gate", "", client.gate(name, labels=COLLECTION, who="s", **kind))
        self._gated = self._world.now_us() / 1e6
        await asyncio.sleep(chance.uniform(1, 12))
        while not await self._try("lift", "", client.lift_gate(name, labels=COLLECTION, who="s")):
            await asyncio.sleep(1)

    async def _change(self, what: str, task_id: str, call: Callable[..., Awaitable[bool]]) -> None:
        """Something that is done to a task; where it was, the audit log has to say so."""
        signed = self._world.server.audits.signed(what)
        if await attempt(self._world, what, call(task_id, **signed), task_id):
            self._world.server.audits.answered(signed["why"])

    async def _try(self, what: str, task_id: str, call: Any) -> bool:
        told = (task_id,) if task_id else ()
        try:
            answer = await call
        except atf.errors.AtfError as error:
            self._world.chronicle.say(f"{what} failed: {error}", *told)
            return False
        self._world.chronicle.say(f"{what} answered {answer}", *told)
        return True


async def _cancelled_by_label(client: AsyncClient, own: str, _task_id: str, *, who: str, why: str) -> bool:
    """Whether anything was done to the one task that has a label."""
    done = await client.cancel_matching(labels={OWN: own}, dry_run=False, who=who, why=why)
    return done.cancelled + done.requested > 0
