"""Reads tasks: single ones, how many there are, and what surrounds one for `explain`. Reads only."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from atf.errors import Unavailable
from atf.store.servers.connection import Link
from atf.store.servers.server_info import text
from atf.task import LIVE, STARTS, US, WAITING, Status

from . import keys
from .calls import by_partition
from .claim_pause import ClaimPause
from .partitions import Partitions
from .records import task_record
from .status import COUNTED
from .values.explained import ExplainedTask
from .values.tasks import TaskRecord

_COUNTED_AT_ONCE: Final = 64
"""Lambdas that one call counts: few enough to hold up nobody in the store."""
_READ_BATCH = 64
"""Records read by one call: each may hold a payload and a result."""
_SCAN_COUNT = 512
_TASK_KEY = re.compile(r"atf:\{\d+\}:t:(?P<id>[^:]+)")
"""SCAN's pattern also fits a job whose name looks like one."""
_CURSOR = re.compile(r"([0-9]{1,5})\.([0-9a-f]*)\.([0-9]{1,20})")


class TaskVerbs(Partitions):
    """The reading verbs of Store."""

    async def get_tasks(self, ids: Sequence[str], within: Sequence[str] = ()) -> list[TaskRecord | None]:
        """Whole records; None for an id that has none.

        Args:
            ids: which.
            within: namespaces (with their slashes) and lambdas: a task of another one does not exist for this call, and takes as long. Empty: of all.
        """
        bound = " ".join(within)

        async def call(partition: int, batch: list[str]) -> list[TaskRecord | None]:
            return list(map(task_record, batch, await self._call("get_tasks", partition, [bound, *batch])))

        return await by_partition(ids, self._partition, call, most=_READ_BATCH)

    async def time_us(self) -> int:
        """The store's TIME, µs."""
        if self.now is not None:
            return self.now()
        (server, *_) = await self._link.masters()
        return await _time_us(server)

    async def latest_time_us(self) -> int:
        """The TIME of that server of the store that is furthest ahead, µs: none has dated anything after it."""
        if self.now is not None:
            return self.now()
        return max(await asyncio.gather(*map(_time_us, await self._link.masters())))

    async def claim_pauses(self) -> list[ClaimPause | Unavailable | None]:
        """By partition: the pause of claims there, None where claims are given, or why that is not known. One that is away holds up no other."""

        async def look(partition: int) -> ClaimPause | Unavailable | None:
            try:
                return ClaimPause.from_reply(await self._call("claim_pauses", partition, []))
            except Unavailable as error:
                return error

        return await asyncio.gather(*map(look, range(self.partitions)))

    async def counts(self, lambda_name: str) -> dict[Status, int]:
        """How many tasks of a lambda are in each status. Exact."""
        return (await self.counts_of([lambda_name]))[lambda_name]

    async def counts_of(self, names: Sequence[str]) -> dict[str, dict[Status, int]]:
        """How many tasks of each lambda are in each status. Exact."""
        total = {name: dict.fromkeys(COUNTED, 0) for name in names}

        async def of(partition: int) -> None:
            for start in range(0, len(names), _COUNTED_AT_ONCE):
                some = names[start : start + _COUNTED_AT_ONCE]
                for name, counts in zip(some, await self._call("count", partition, list(some)), strict=True):
                    for status, count in zip(COUNTED, counts, strict=True):
                        total[name][status] += count

        await asyncio.gather(*map(of, range(self.partitions)))
        return total

    async def pending(self, lambda_name: str) -> list[int | Unavailable]:
        """How many unfinished tasks of a lambda each partition has, or why it does not say. At once: one that is away holds up no other."""

        async def of(partition: int) -> int | Unavailable:
            try:
                (counts,) = await self._call("count", partition, [lambda_name])
            except Unavailable as error:
                return error
            return sum(int(count) for status, count in zip(COUNTED, counts, strict=True) if status in LIVE)

        return await asyncio.gather(*map(of, range(self.partitions)))

    async def scan(self, cursor: str) -> tuple[str, list[TaskRecord]]:
        """The live tasks of a part of the store, in no order: the cursor of the next part ("": that was all), records.

        A task that is there from the first to the last part is seen at least once. Reads every key; not for a hot path. A
        server that restarted or took over begins again: a cursor means something to one process only.
        """
        servers = await self._link.masters()
        number, run_id, at = parse_cursor(cursor)
        if number >= len(servers):
            return "", []
        server = servers[number]
        info = "" if server.in_process else text(await server.command("INFO", "server"))
        running = "".join(line[len("run_id:") :] for line in info.splitlines() if line.startswith("run_id:"))
        where = at if running == run_id else 0
        following, found = await server.command("SCAN", where, "MATCH", keys.TASKS, "COUNT", _SCAN_COUNT)
        ids = [each["id"] for raw in found if (each := _TASK_KEY.fullmatch(raw.decode()))]
        records = [record for record in await self.get_tasks(ids) if record is not None]
        at, number = int(following), number + (int(following) == 0)
        onward = f"{number}.{running if at else ''}.{at}" if number < len(servers) else ""
        return onward, [record for record in records if record.status in LIVE]

    async def explain_task(self, task_id: str, within: Sequence[str] = ()) -> ExplainedTask | None:
        """Where a task stands and what surrounds it; None where there is no such task. `within` as of `get_tasks`."""
        (record,) = await self.get_tasks([task_id], within)
        if record is None:
            return None
        reply = await self._call("explain_task", self._partition(task_id), [task_id])
        if not reply:
            return None
        now, paused, depth, limit, position, in_queue, *more = reply
        behind, stopped_at, waits_for, gate, unserved = (each.decode() for each in more[:5])
        slots_taken, before, hosts, quarantined, served, not_run, unknown, *last = more[5:]
        signatures, told = ([each.decode() for each in some] for some in last[:2])
        failing = dict(zip(told[::2], told[1::2], strict=True))
        in_hand = 0
        if waits_for.startswith("running"):
            counts = await self.counts(record.lambda_name)
            in_hand = sum(counts[each] for each in LIVE - WAITING)
        return ExplainedTask(
            record=record,
            now_us=int(now),
            paused=bool(paused),
            queue_depth=depth,
            queue_limit=limit,
            position=position,
            in_queue=bool(in_queue),
            pause=ClaimPause.from_reply(last[2]),
            behind=behind,
            stopped_at=stopped_at,
            waits_for=waits_for,
            in_hand=in_hand,
            gate=int(gate or 0),
            unserved=unserved,
            served=bool(served),
            slots_taken=slots_taken,
            before=before,
            hosts=hosts,
            quarantined={
                host.decode(): int(until) for host, until in zip(quarantined[::2], quarantined[1::2], strict=True)
            },
            not_run=bool(not_run),
            unknown=bool(unknown),
            signatures=signatures,
            failing={host: why for host, why in failing.items() if why != STARTS},
            starting=sorted(host for host, why in failing.items() if why == STARTS),
            pauses=_pauses(last[3].decode()),
        )


def _pauses(said: str) -> list[tuple[int, int]]:
    """The pauses of a lambda, each with its begin and its end."""
    spans = (each.partition(" ") for each in said.split(";") if each)
    return [(int(since), int(until or 0)) for since, _, until in spans if since]


async def _time_us(server: Link) -> int:
    seconds, micros = await server.command("TIME")
    return int(seconds) * US + int(micros)


def parse_cursor(cursor: str) -> tuple[int, str, int]:
    """Which server, the process that it was, and that process's own cursor; the beginning where it is none of ours."""
    match = _CURSOR.fullmatch(cursor)
    return (int(match[1]), match[2], int(match[3])) if match else (0, "", 0)
