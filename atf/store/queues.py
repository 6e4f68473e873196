"""Reads how deep the queues are, and makes them known to RQ's tools."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from functools import cached_property

import redis.exceptions as rx

from atf.errors import ResourceExhausted, Unavailable
from atf.store.servers.refusals import translate

from . import keys
from .partitions import Partitions
from .values.explained import QueueDepth


class QueueVerbs(Partitions):
    """The verbs of Store about queues."""

    @cached_property
    def _known_to_rq(self) -> set[str]:
        """Queues that this process has made known to RQ's tools."""
        return set()

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
