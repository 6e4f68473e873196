"""Takes ids of tasks from the queues, reads how deep the queues are, and makes them known to RQ's tools."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import redis.exceptions as rx

from atf.errors import ResourceExhausted, Unavailable
from atf.store.servers.refusals import translate
from atf.store.servers.sockets import Arg

from . import keys
from .partitions import Partitions
from .values.explained import QueueDepth

_PAUSED: Final = "!"
"""In the place of a queue's name: something was found, and claims are paused."""
_APART: Final = "?"
"""In the place of a queue's name: what follows are names of sets of misfits."""
_MISFITS_PART: Final = 4
"""Of what a pop asks for, a fourth at least may be misfits: else those would never be reached beside a long queue."""


class QueueVerbs(Partitions):
    """The verbs of Store about queues."""

    @cached_property
    def _known_to_rq(self) -> set[str]:
        """Queues that this process has made known to RQ's tools."""
        return set()

    async def pop(
        self,
        partition: int,
        groups: Sequence[Sequence[str]],
        want: int,
        pool: str = "",
        host: str = "",
        signatures: Mapping[str, str] | None = None,
    ) -> list[tuple[str, list[str]]]:
        """Takes up to `want` ids; the first group's queues first, evenly within a group, none of paused lambdas or of another pool's.

        What a lambda gets by that is dealt among its priorities by their shares. A queue with no ids may hold some, and had to stand
        back for others; those that are not named are empty. Where a lambda's placement is sticky or spread, a host leaves tasks to
        others, for a while; without a name (""), it takes what comes first. Without groups it takes nothing from queues, and names all
        that hold something, with no ids.

        Of the lambdas in `signatures` (lambda -> digest of the signature that the caller's executors run) it also takes, a few of them
        beyond `want`, tasks that did not fit executors with another signature. Nobody else takes these.

        NOT idempotent, and never repeated by anyone: ids of a lost answer expire and are pushed again.
        """
        args: list[Arg] = [want, pool, host]
        for group in groups:
            args += (len(group), *group)
        reply = await self._call("pop", partition, args)
        found = [
            (queue.decode(), [each.decode() for each in ids])
            for queue, ids in zip(reply[::2], reply[1::2], strict=True)
        ]
        if found and found[-1][0] == _PAUSED:
            found.pop()
            self.pause_met.set()
        if found and found[-1][0] == _APART:
            _, names = found.pop()
            found += await self.pop_misfits(partition, pool, names, want, found, signatures or {})
        return found

    async def pop_misfits(
        self,
        partition: int,
        pool: str,
        names: Sequence[str],
        want: int,
        found: Sequence[tuple[str, list[str]]],
        signatures: Mapping[str, str],
    ) -> list[tuple[str, list[str]]]:
        """What of the sets of these names ("<queue> <digest>,<digest>") other signatures than theirs may take."""
        ours = []
        for name in names:
            queue, _, digests = name.partition(" ")
            digest = signatures.get(queue.rpartition(":")[0])
            if digest and digest not in digests.split(","):
                ours.append(name)
        if not ours or not want:
            return []
        room = max(want - sum(len(ids) for _, ids in found), want // _MISFITS_PART, 1)
        args: list[Arg] = [pool]
        for name in ours:
            args += (name, max(room // len(ours), 1))
        reply = await self._call("pop_misfits", partition, args)
        if reply == [b"paused"]:
            self.pause_met.set()
            return []
        return [
            (name.partition(" ")[0], [each.decode() for each in ids])
            for name, ids in zip(ours, reply, strict=True)
            if ids
        ]

    async def _register_with_rq(self, names: Iterable[str]) -> None:
        """Makes queues known to RQ's tools. A command of its own: RQ's registry has no hash tag."""
        new = [name for name in names if name not in self._known_to_rq]
        if new:
            from rq import Queue  # takes an eighth of a role's start, and most roles never need it

            prefix = Queue.redis_queue_namespace_prefix
            # a full store refuses this, and must drain all the same: RQ's tools see the queue once there is room
            with contextlib.suppress(ResourceExhausted, Unavailable):
                names_of = Queue.redis_queues_keys
                await self._link.command("SADD", names_of, *(prefix + name for name in new), key=names_of)
                self._known_to_rq.update(new)

    async def queues(self) -> list[QueueDepth]:
        """Every queue of ours, with its depth, as RQ sees it."""
        try:
            if self._link.in_process:
                return self.read_queues()
            return await asyncio.to_thread(self.read_queues)  # noqa: TID251  RQ has only a blocking client
        except (rx.RedisError, OSError) as error:
            raise translate(error, self._link.where) from error

    def read_queues(self) -> list[QueueDepth]:
        from rq import Queue

        with self._link.blocking_client() as client:
            ours = [
                (queue, where) for queue in Queue.all(connection=client) if (where := keys.parse_rq_name(queue.name))
            ]
            pipe = client.pipeline(transaction=False)  # thousands of lambdas have thousands of queues
            for queue, _ in ours:
                pipe.llen(queue.key)
            depths = pipe.execute()
        return sorted(
            QueueDepth(queue.name, *where, depth=depth) for (queue, where), depth in zip(ours, depths, strict=True)
        )
