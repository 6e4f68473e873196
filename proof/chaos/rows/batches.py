"""Row: a batch while everybody who has a part in it is killed: the client that submits it, every role, half of the executors, and the store
server, which has each write on its disk before it answers.

What the store says at the end is held against what the items' runs have told: each item ended once in the record, with the result of one of
its runs, and the completion callback ran once.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.client import AsyncClient
from atf.embedded.child import Child
from atf.errors import AtfError
from atf.sdk.batch_handle import Batch
from atf.sdk.batch_info import BatchProgress, ItemInfo
from proof.chaos import batched
from proof.chaos.bench import environment
from proof.chaos.frame import Progress, Row, Trial

ITEMS: Final = 20_000
STRUCK: Final = ("frontend", "store-consumer", "hsc", "controller", "store")
"""Processes that are killed once in a trial each; who keeps them alive starts them again."""
EXECUTORS: Final = 4
PARTITIONS: Final = 4
CLIENT_KILLED: Final = (0.2, 0.6)
"""Share of the items that are stored when the client is killed."""
KILLED: Final = (0.05, 0.8)
"""Share of the items that have ended when a role is killed."""
_END_S: Final = 300.0
_UP_S: Final = 60.0
"""Seconds within which a process that is to be killed must be there."""
_CALLBACK_S: Final = 60.0
_QUIET_S: Final = 3.0
"""Seconds after the callback in which it would have run again."""
_LOOK_S: Final = 0.1


class BatchesCourse:
    """One batch, and who is killed meanwhile."""

    def __init__(self, cluster: Cluster, env: Mapping[str, str], folder: Path, batch: str, items: int) -> None:
        self._cluster, self._folder, self._batch, self._items = cluster, folder, batch, items
        self._env = {**env, "ATF_FRONTEND": cluster.frontend_address}
        self._chance = random.Random()
        self._said: list[str] = []
        self.kills = 0

    async def run(self, client: AsyncClient) -> Trial:
        """Plays it, and judges."""
        began = time.monotonic()
        roles = asyncio.gather(
            *(self._strike(client, functools.partial(self._kill, name)) for name in STRUCK),
            self._strike(client, self._kill_executors),
        )
        try:
            await self._submit(client)
            await roles
        finally:
            roles.cancel()
        at_end = await client.batch_handle(self._batch, batched.item).wait_async(_END_S)
        took = time.monotonic() - began
        await self._until(lambda: self._callbacks() > 0, _CALLBACK_S)
        await asyncio.sleep(_QUIET_S)
        items = [each async for each in client.batch_handle(self._batch, batched.item).items_async()]
        found = judge(at_end, items, batched.read(self._folder, self._batch), self._items)
        return {**found, "kills": self.kills, "batch_s": round(took, 2)}

    async def _submit(self, client: AsyncClient) -> None:
        """The client is killed once, and its call made again by another process."""
        share = self._chance.uniform(*CLIENT_KILLED)
        first = self._client()
        await self._reached(client, lambda at: at.items >= share * self._items)
        first.kill_group()
        await first.wait()
        self.kills += 1
        for _ in range(3):  # a frontend may be killed under it for longer than it tries
            if await self._client().wait() == 0:
                return
        raise OSError(f"the client did not come to its end: {' / '.join(self._said[-5:])}")

    def _client(self) -> Child:
        command = [sys.executable, "-P", "-m", "proof.chaos.batched", self._batch, str(self._items)]
        return Child(command, env=self._env, on_line=self._said.append)

    async def _strike(self, client: AsyncClient, kill: Callable[[], Awaitable[None]]) -> None:
        share = self._chance.uniform(*KILLED)
        await self._reached(client, lambda at: at.finished >= share * self._items)
        await kill()
        self.kills += 1

    async def _kill(self, name: str) -> None:
        await self._there(lambda: self._cluster.pid(name) > 0, name)
        self._cluster.kill(name)

    async def _kill_executors(self) -> None:
        """Half of them, once all are there: their controller may have been killed just before."""
        await self._there(lambda: len(self._cluster.executors()) == EXECUTORS, f"{EXECUTORS} executors")
        executors = self._cluster.executors()
        for each in self._chance.sample(executors, len(executors) // 2):
            os.kill(each.worker, signal.SIGKILL)

    async def _there(self, holds: Callable[[], bool], what: str) -> None:
        await self._until(holds, _UP_S)
        if not holds():
            raise OSError(f"not there after {_UP_S:g} s: {what}")

    async def _reached(self, client: AsyncClient, holds: Callable[[BatchProgress], bool]) -> None:
        handle: Batch[Any] = client.batch_handle(self._batch)
        async with asyncio.timeout(_END_S):
            while True:
                try:
                    if holds(await handle.progress_async()):
                        return
                except AtfError:
                    pass  # it is not there yet, or the frontend has just been killed
                await asyncio.sleep(_LOOK_S)

    def _callbacks(self) -> int:
        return sum(each[0] == "callback" for each in batched.read(self._folder, self._batch))

    @staticmethod
    async def _until(holds: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not holds() and time.monotonic() < until:
            await asyncio.sleep(_LOOK_S)


def judge(at_end: BatchProgress, items: Sequence[ItemInfo], told: Sequence[Sequence[Any]], wanted: int) -> Trial:
    """What the record says, beside what the runs have told.

    Args:
        at_end: the batch as it ended.
        items: its items.
        told: lines of its runs.
        wanted: how many items were submitted.
    """
    runs: dict[int, list[int]] = defaultdict(list)
    callbacks = []
    for kind, _, *rest in told:
        if kind == "item":
            runs[rest[0]].append(rest[1])
        else:
            callbacks.append(rest)
    results = {each.number: each.result for each in items}
    counted = (at_end.items, at_end.done, at_end.permanently_failed, at_end.cancelled, at_end.status.name, at_end.round)
    bars = {
        "items lack in the record, or are too many": abs(len(items) - wanted),
        "items are there twice": len(items) - len(results),
        "items did not end well": sum(each.status.name != "DONE" for each in items),
        "items have the result of another one, or of no run": sum(
            not result or result[0] != number or result[1] not in runs[number] for number, result in results.items()
        ),
        "runs are of no item": sum(number not in results for number in runs),
        "callback runs too many or too few": abs(len(callbacks) - 1),
        "callbacks were told something else": sum(each[1]["done"] != wanted for each in callbacks),
    }
    failures = [f"{number} {said}" for said, number in bars.items() if number]
    if counted != (wanted, wanted, 0, 0, "DONE", 1):
        failures.append(f"the batch ended with (items, done, failed, cancelled, status, round) {counted}")
    repeated = sum(len(claims) > 1 for claims in runs.values())
    return {"failures": failures, "items": len(items), "runs": sum(map(len, runs.values())), "repeated": repeated}


async def trials(n: int, progress: Progress, items: int = ITEMS) -> Sequence[Trial]:
    """Batches one after the other, each of so many items."""
    folder = Path(tempfile.mkdtemp(prefix="atf-batches-"))
    record = folder / "runs"
    record.mkdir()
    env = environment(folder, **{batched.FOLDER: str(record)})
    settings = ClusterSettings(
        data_dir=str(folder / "data"), free_ports=True, executors=EXECUTORS, partitions=PARTITIONS
    )
    found: list[Trial] = []
    async with AsyncExitStack() as stack:
        log = stack.enter_context((folder / "roles.log").open("w", encoding="utf-8", buffering=1))

        def say(name: str, line: str) -> None:
            print(f"{name:<14} | {line}", file=log)

        cluster = await stack.enter_async_context(Cluster(settings, ["proof.chaos.batched:app"], env=env, say=say))
        client = await stack.enter_async_context(AsyncClient(cluster.frontend_address, timeout=60))
        async for number in progress.trials(n):
            found.append(await BatchesCourse(cluster, env, record, f"b{number}", items).run(client))
            progress.say(f"{found[-1]}")
    if any(each["failures"] for each in found):
        progress.say(f"BROKEN; what the roles said, and what the runs told, are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    return await trials(n, progress)


ROWS: Final = [
    Row(
        name="batch",
        what=(
            f"a batch of {ITEMS:,} items while its client, the frontend, the store consumer, half of the executors, the HSC, the controller"
            " and the store server (appendfsync always) are killed, once each"
        ),
        bar="every item ends exactly once in the record, with the result of one of its runs; the completion callback runs once",
        full=20,
        batch=5,
        run=_run,
        timed=False,
    )
]
