"""Registers lambdas, reads them and their queues, and tells the partitions of changes.

A lambda's record is written in its home partition, partition 0, together with outbox records for all others; whoever wrote it
delivers those at once, and a store consumer does it should the writer die before.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import redis.exceptions as rx

from atf.calls.single_flight import SingleFlight
from atf.errors import ResourceExhausted, Unavailable
from atf.store.servers.refusals import translate
from atf.store.servers.sockets import Arg

from . import keys
from .base import Caller
from .values.explained import QueueDepth
from .values.lambdas import LambdaRecord
from .values.passes import OutboxRecord

BATCH_SYNC: Final = "batch"
"""The kind of outbox record by which a batch's home tells a partition what it knows."""
BATCH_ENDED: Final = "batch_ended"
"""And that says so to whoever makes the callbacks."""
_OF_BATCHES: Final = b'\n["batch'
REGISTRY_PARTITION: Final = 0
"""The partition where lambdas and gates are written first."""
_OUTBOX_AT_ONCE = 256
_WRITES_AT_ONCE = 64
"""Records of lambdas, and of the outbox for other partitions, that one call writes: a few milliseconds of the server's time."""


class _LambdasSeen(NamedTuple):
    """Every lambda's record as the store had them last: by which process of the server, and of which version."""

    server: str
    version: bytes
    records: Mapping[str, LambdaRecord]


class LambdaVerbs(Caller):
    """The verbs of Store about lambdas and queues."""

    _lambdas_seen = _LambdasSeen("", b"", {})

    async def register_lambdas(self, records: Sequence[LambdaRecord]) -> int:
        """Writes lambdas' specs, limits and timeouts; `paused` is left as it stands. Returns how many have changed.

        A full store refuses the call even where it would change nothing. It must not keep executors from starting that are to drain it: so
        lambdas that stand there as given have been registered all the same.

        Raises:
            ResourceExhausted: the store is full, and one of them is new or other than before.
        """
        at_once, changed = max(_WRITES_AT_ONCE // self.partitions, 1), 0
        for start in range(0, len(records), at_once):
            args: list[Arg] = [REGISTRY_PARTITION, self.partitions]
            some = records[start : start + at_once]
            for each in some:
                spec, limit, timeout = (
                    base64.b64encode(each.spec).decode(),
                    str(each.queue_limit),
                    str(each.enqueue_timeout_us),
                )
                body = msgspec.json.encode(["register", each.name, spec, limit, timeout, each.settings])
                args += (each.name, each.spec, limit, timeout, body)
            try:
                changed += int(await self._call("register_lambdas", REGISTRY_PARTITION, args))
            except ResourceExhausted:
                if not await self._stand_as_given(some):
                    raise
            await self._apply_all_outboxes()
        return changed

    async def _stand_as_given(self, records: Iterable[LambdaRecord]) -> bool:
        _, *said = await self._call("list_lambdas", REGISTRY_PARTITION, [""])
        known = {name: (spec, code) for name, spec, _, _, _, code, *_ in said}
        return all(
            known.get(each.name.encode())
            == (each.spec, f"limit={each.queue_limit} timeout={each.enqueue_timeout_us} {each.settings}".encode())
            for each in records
        )

    async def delete_lambda(self, name: str) -> bool:
        """Forgets a lambda; its finished tasks stay until their retention is over. False where there is none of this name.

        Raises:
            Unavailable: changes of it are on their way to a partition that is away.
        """
        for _ in range(2):
            done = int(
                await self._call("delete_lambda", REGISTRY_PARTITION, [REGISTRY_PARTITION, self.partitions, name])
            )
            await self._apply_all_outboxes()
            if done in {0, 1}:
                return done == 1
        raise Unavailable(f"changes of {name} are still on their way to another partition; try again")

    async def set_lambda(self, name: str, change: Callable[[LambdaRecord], str]) -> bool:
        """Sets, for an operator, what goes before what a lambda's code says. False where there is none of this name.

        Args:
            name: of the lambda.
            change: tells from the record as it is now what is set from now on, "name=value name=value"; it may be asked again, where
                others change the record meanwhile.
        """
        while True:
            record = (await self.list_lambdas()).get(name)
            if record is None:
                return False
            settings = change(record)
            spec64 = base64.b64encode(record.spec)
            args: list[Arg] = [
                REGISTRY_PARTITION,
                self.partitions,
                name,
                record.spec,
                spec64,
                record.overrides,
                settings,
            ]
            if await self._call("set_lambda", REGISTRY_PARTITION, args) == 1:
                await self._apply_all_outboxes()
                return True

    async def list_lambdas(self) -> Mapping[str, LambdaRecord]:
        """Every registered lambda, by name; the very same mapping while none has changed."""
        seen = self._lambdas_seen
        server = self._link.run_id(keys.record(REGISTRY_PARTITION))
        known = seen.version if seen.server == server else b""
        version, *said = await self._call("list_lambdas", REGISTRY_PARTITION, [known])
        if (
            self._link.run_id(keys.record(REGISTRY_PARTITION)) != server
        ):  # another one may have forgotten what had this version
            version, *said = await self._call("list_lambdas", REGISTRY_PARTITION, [known := b""])
            server = self._link.run_id(keys.record(REGISTRY_PARTITION))
        if version != known:
            records = {record.name: record for record in map(_lambda_record, said)}
            seen = self._lambdas_seen = _LambdasSeen(server, version, records)
        return seen.records

    async def apply_outbox(self, record: OutboxRecord) -> None:
        """Applies a change of the outbox in its target partition, then acknowledges it. May be repeated.

        The end of a batch is left as it is: what comes of that is the store consumer's to say, which strikes it off itself.
        """
        if await self._apply(record):
            await self.acknowledge_outbox(record)

    async def _apply(self, record: OutboxRecord) -> bool:
        """Whether it is delivered."""
        version, _, body = record.body.partition(b"\n")
        kind, name, *rest = msgspec.json.decode(body, type=list[str])
        args: list[Arg] = [version, kind, name, *rest]
        if kind == BATCH_ENDED:
            return False
        if kind == "register":
            args[3] = base64.b64decode(rest[0])
        if kind == "ask_permits":
            if await self._call("ask_permits", record.target, args[2:]) == 0:
                raise Unavailable(
                    f"partition {record.target} of the task store has lost its data, and no role has opened it since"
                )
        elif kind == "retell":
            await self._call("resync_lambdas", record.target, [REGISTRY_PARTITION, self.partitions, name, *rest])
        elif kind == "grant_permits":
            await self._call("grant_permits", record.target, args[2:])
        elif kind == BATCH_SYNC:
            while not await self.sync_batch(record):
                pass
        elif kind == "batch_report":
            await self._call("report_batch", record.target, args[2:])
        else:
            await self._call("apply_outbox", record.target, args)
        return True

    async def acknowledge_outbox(self, record: OutboxRecord) -> None:
        """Strikes off what has been delivered."""
        await self._call("acknowledge_outbox", record.partition, [record.number])

    @cached_property
    def _apply_all_outboxes(self) -> SingleFlight[None]:
        """Applies the outboxes of all partitions. Many that change lambdas at the same time share it."""
        return SingleFlight(self._apply_outboxes)

    async def _apply_outboxes(self) -> None:
        reply = await self._call("list_outbox", REGISTRY_PARTITION, [_OUTBOX_AT_ONCE])
        by_target: dict[int, list[OutboxRecord]] = {}
        for number, target, body in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
            if _OF_BATCHES not in body:  # a walk over many items is for store consumers
                by_target.setdefault(int(target), []).append(
                    OutboxRecord(REGISTRY_PARTITION, int(number), int(target), body)
                )
        for error in await asyncio.gather(*map(self._apply_records, by_target.values()), return_exceptions=True):
            # where only that partition is away, a store consumer tells it once it is back
            if error is not None and not (isinstance(error, Unavailable) and self._link.parted):
                raise error

    async def _apply_records(self, records: Sequence[OutboxRecord]) -> None:
        done: list[Arg] = [record.number for record in records if await self._apply(record)]
        await self._call("acknowledge_outbox", REGISTRY_PARTITION, done)

    async def _register_with_rq(self, names: Iterable[str]) -> None:
        """Makes queues known to RQ's tools. A command of its own: RQ's registry has no hash tag."""
        new = [name for name in names if name not in self._queues]
        if new:
            from rq import Queue  # takes an eighth of a role's start, and most roles never need it

            prefix = Queue.redis_queue_namespace_prefix
            # a full store refuses this, and must drain all the same: RQ's tools see the queue once there is room
            with contextlib.suppress(ResourceExhausted, Unavailable):
                names_of = Queue.redis_queues_keys
                await self._link.command("SADD", names_of, *(prefix + name for name in new), key=names_of)
                self._queues.update(new)

    async def queues(self) -> list[QueueDepth]:
        """Every queue of ours, with its depth, as RQ sees it."""
        try:
            if self._link.in_process:
                return self._read_queues()
            return await asyncio.to_thread(self._read_queues)  # noqa: TID251  RQ has only a blocking client
        except (rx.RedisError, OSError) as error:
            raise translate(error, self._link.where) from error

    def _read_queues(self) -> list[QueueDepth]:
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


def _lambda_record(said: Sequence[Any]) -> LambdaRecord:
    """A record as the function `lambdas` says it."""
    name, spec, limit, timeout, paused, code, overrides, gates = said
    settings = "".join(code.decode().split(" ", 2)[2:])  # behind limit and timeout
    return LambdaRecord(
        name.decode(), spec, int(limit), int(timeout), paused == b"1", settings, overrides.decode(), bool(gates)
    )
