"""What the simulated service asks about its tasks, as services do: results, above all. What it is told is held against what was."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from atf.client import AsyncClient, TaskInfo
from atf.errors import AtfError, TaskCancelled, TaskFailed, TaskNotFound
from atf.task import FINISHED, Status

from .answers import UNKNOWN, UNSAID
from .lambdas import steps_of

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")
AT_THE_END_S: Final = 60.0
"""How long the service waits for all its tasks at the end, when nothing disturbs them any more."""
_WATCHES_S: Final = 20.0
TOLD_WITHIN_US: Final = 8_000_000
"""µs from a task's end until whoever waits for it is told: more than a poll_interval, should the notification be lost."""


class SimAsker:
    """Asks, and has the answers judged."""

    def __init__(self, world: World, client: AsyncClient) -> None:
        self._world = world
        self._client = client

    async def sometimes(self, task_id: str, chance: random.Random) -> None:
        """Perhaps one question about a task."""
        if chance.random() < 0.25:
            questions = (self.get, self.explain, self.result, self.wait, self.list_some, self.watch)
            ask = chance.choices(questions, (2, 2, 3, 1, 0.4, 0.4))[0]
            await ask(task_id)

    async def get(self, task_id: str) -> None:
        """GetTask."""
        await self._one("get", task_id, self._client.get(task_id))

    async def explain(self, task_id: str) -> None:
        """ExplainTask."""
        await self._one("explain", task_id, self._explained(task_id))

    async def wait(self, task_id: str) -> None:
        """WaitTasks, by a caller that has all day."""
        await self._all("wait", [task_id], self._client.wait([task_id], timeout=45))

    async def list_some(self, _task_id: str) -> None:
        """ListTasks, of the lambda of most tasks."""
        await self._all("list", [], self._client.list(steps_of(self._world.seed).name, Status.SUCCESS, limit=10))

    async def watch(self, task_id: str) -> None:
        """GetLog, and WatchLog for a while."""
        since = self._world.now_us()
        try:
            async with asyncio.timeout(_WATCHES_S):
                log = await self._client.get_log(task_id)
                self._judge("log", task_id, Status(log.status).name, UNSAID, since)
                async with aclosing(self._client.watch_log(task_id)) as seen:
                    async for _ in seen:
                        pass
        except TaskNotFound:
            self._judge("log", task_id, UNKNOWN, None, since)
        except (AtfError, TimeoutError) as error:
            self._world.chronicle.say(f"log failed: {error}", task_id)

    async def result(self, task_id: str) -> None:
        """WaitTasks as most callers know it: what did it return?"""
        since = self._world.now_us()
        handle = self._client.handle(task_id)
        try:
            value = await handle.result_async(timeout=self._world.chance.choice((0.5, 10.0, 40.0)))
        except TaskFailed:
            self._judge("result", task_id, "FATAL_FAILURE", None, since)
        except TaskCancelled:
            self._judge("result", task_id, "CANCELLED", None, since)
        except TaskNotFound:
            self._judge("result", task_id, UNKNOWN, None, since)
        except (AtfError, TimeoutError) as error:
            self._world.chronicle.say(f"result failed: {error}", task_id)
        else:
            self._judge("result", task_id, "SUCCESS", value, since)

    async def of_all(self, ids: list[str]) -> None:
        """At the end: every task that the store knows must be told to have finished."""
        known = [each for each in ids if self._world.server.field(each, "s") not in {None, "TOMBSTONE"}]
        if known:
            told = await self._all("wait for all", known, self._client.wait(known, timeout=AT_THE_END_S))
            left = set(known) - {each.id for each in told or ()}
            ended = [each for each in sorted(left) if self._ended_before(each, TOLD_WITHIN_US)]
            if told is not None and ended:
                self._world.chronicle.odd.append(f"{ended} have ended, and who waited for them was not told")

    def _ended_before(self, task_id: str, ago_us: int) -> bool:
        server = self._world.server
        status = server.field(task_id, "s") or ""
        if status not in {each.name for each in FINISHED}:
            return False
        return int(server.field(task_id, f"t{Status[status].value}") or 0) + ago_us <= server.now_us()

    async def _explained(self, task_id: str) -> TaskInfo:
        return (await self._client.explain(task_id)).task

    async def _one(self, what: str, task_id: str, call: Awaitable[TaskInfo]) -> None:
        since = self._world.now_us()
        try:
            info = await call
        except TaskNotFound:
            self._judge(what, task_id, UNKNOWN, None, since)
        except AtfError as error:
            self._world.chronicle.say(f"{what} failed: {error}", task_id)
        else:
            self._judge(what, task_id, info.status.name, info.result, since)

    async def _all(self, what: str, ids: list[str], call: Awaitable[list[TaskInfo]]) -> list[TaskInfo] | None:
        since = self._world.now_us()
        try:
            infos = await call
        except AtfError as error:
            self._world.chronicle.say(f"{what} failed: {error}", *ids)
            return None
        for each in infos:
            self._judge(what, each.id, each.status.name, each.result, since)
            if ids and each.status not in FINISHED:
                self._world.chronicle.odd.append(f"{each.id}: {what} answered it, and it is {each.status.name}")
        return infos

    def _judge(self, what: str, task_id: str, told: str, result: Any, since_us: int) -> None:
        world = self._world
        world.chronicle.say(f"{what} was told {told or 'that there is none'}", task_id)
        world.chronicle.odd += world.server.answers.check(task_id, told, result, since_us, world.now_us())
