"""Registers lambdas, reads them, and tells the partitions of changes.

A lambda's record is written in the registry partition, partition 0, together with outbox records for all others; whoever wrote it
delivers those at once, and a store consumer does it should the writer die before.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from atf.errors import ResourceExhausted, Unavailable
from atf.store.servers.sockets import Arg

from . import keys
from .outbox import OutboxVerbs
from .partitions import REGISTRY_PARTITION
from .values.lambdas import LambdaRecord

_WRITES_AT_ONCE = 64
"""Records of lambdas, and of the outbox for other partitions, that one call writes: a few milliseconds of the server's time."""


class _LambdasSeen(NamedTuple):
    """Every lambda's record as the store had them last: by which process of the server, and of which version."""

    server: str
    version: bytes
    records: Mapping[str, LambdaRecord]


class LambdaVerbs(OutboxVerbs):
    """The verbs of Store about lambdas."""

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
            args: list[Arg] = [self.partitions]
            some = records[start : start + at_once]
            for each in some:
                spec = base64.b64encode(each.spec)
                args += (each.name, spec, each.queue_limit, each.enqueue_timeout_us, each.settings)
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
            == (
                base64.b64encode(each.spec),
                f"limit={each.queue_limit} timeout={each.enqueue_timeout_us} {each.settings}".encode(),
            )
            for each in records
        )

    async def delete_lambda(self, name: str) -> bool:
        """Forgets a lambda; its finished tasks stay until their retention is over. False where there is none of this name.

        Raises:
            Unavailable: changes of it are on their way to a partition that is away.
        """
        for _ in range(2):
            done = int(await self._call("delete_lambda", REGISTRY_PARTITION, [self.partitions, name]))
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
            args: list[Arg] = [self.partitions, name, spec64, record.overrides, settings]
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


def _lambda_record(said: Sequence[Any]) -> LambdaRecord:
    """A record as the function `list_lambdas` says it."""
    name, spec, limit, timeout, paused, code, overrides, gates = said
    settings = "".join(code.decode().split(" ", 2)[2:])  # behind limit and timeout
    limits, text = (int(limit), int(timeout)), overrides.decode()
    return LambdaRecord(name.decode(), base64.b64decode(spec), *limits, paused == b"1", settings, text, bool(gates))
