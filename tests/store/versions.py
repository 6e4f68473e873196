"""Two function libraries on one store: this tree's, and a copy of it under another digest, as in the midst of an upgrade.

Beside them stands the foundation's, for the benchmark that measures against it: the text of its fixture, byte for byte. Where a verb is
called differently since then, `FoundationStore` calls it in the old way.
"""

from __future__ import annotations

import base64
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from atf.store import library
from atf.store.calls import CALL_BYTES
from atf.store.library import Library
from atf.store.next_claims import claimed_task
from atf.store.servers.sockets import Arg
from atf.store.store import Store
from atf.store.values.claims import Taken, Taker

_FILE: Final = Path(__file__).parent / "fixtures" / "atf_1_1c0a41a0.lua"
FOUNDATION: Final = Library(_FILE.stem, _FILE.read_bytes())
CURRENT: Final = library.CURRENT
_OTHER: Final = f"{CURRENT.name[:-8]}{'0' * 8}"
OTHER: Final = Library(_OTHER, CURRENT.source.replace(CURRENT.name, _OTHER).encode())
"""The same functions under other names."""


@contextlib.contextmanager
def in_place(one: Library) -> Iterator[None]:
    """Stores that are opened within the block load and call this library."""
    before, library.CURRENT = library.CURRENT, one
    try:
        yield
    finally:
        library.CURRENT = before


_THEN: Final = {
    "open_partition": "open",
    "register_lambdas": "register",
    "set_results": "finish",
    "list_outbox": "owed",
}
"""Names that the foundation had for verbs, of those that the benchmark calls."""


class FoundationStore(Store):
    """A role's store as the foundation had it. Open it with FOUNDATION in place."""

    async def _call(
        self, verb: str, partition: int, args: Sequence[Arg], *, server: bool = False, **_later: Any
    ) -> Any:
        verb = _THEN.get(verb, verb)
        if verb == "register":  # was given the spec twice
            name, spec, *settings = args[1:]
            assert isinstance(spec, bytes)
            body = msgspec.json.encode(["register", name, spec.decode(), *map(str, settings)])
            args = [0, args[0], name, base64.b64decode(spec), *map(str, settings[:2]), body]
        if verb == "open":  # knew nothing of version, timeout and making
            return await super()._call(verb, partition, args[:1], server=server), library.VERSION, args[2], 0
        if verb == "schedule":  # knew nothing of further fields; these tasks have none
            args = [each for first in range(0, len(args), 7) for each in (*args[first : first + 6], "", "")]
        if verb == "heartbeat":  # knew nothing of drains
            args = [args[0], *args[2:]]
        if verb == "finish":  # knew nothing of kept logs
            args = [each for first in range(0, len(args), 11) for each in args[first : first + 10]]
        reply = await super()._call(verb, partition, args, server=server)
        if verb == "schedule":
            return [[*each, b""] for each in reply]
        if verb == "enqueue":  # knew nothing of jobs, gates, misfits and how late it was
            return [*reply, [], 0, [], 0, b"0", 1, [], [], 0]
        return reply

    async def next_claims(
        self, partition: int, groups: Sequence[Sequence[str]], takers: Sequence[Taker], *, want: int, **_later: Any
    ) -> Taken:
        """By two calls: ids left their queues first, and were claimed then."""
        (taker,) = takers
        wanted: list[Arg] = [want]
        for each in groups:
            wanted += (len(each), *each)
        popped = await self._call("pop", partition, wanted)
        ids = [each for some in popped[1::2] for each in some]
        claimed: list[Arg] = [taker.owner, taker.nonce, self._lease_us, CALL_BYTES, 1, *ids]
        found = await self._call("claim", partition, claimed, server=True) if ids else []
        claims = [claimed_task("", taker.nonce, _as_now(claim)) for claim in found if len(claim) > 2]
        return Taken({taker.nonce: claims}, {}, [], frozenset(), frozenset())

    async def _lease(self, verb: str, partition: int, args: list[Arg], **more: Any) -> list[Any]:  # knew of no roster
        reply: list[Any] = await self._call(verb, partition, args, **more)
        return reply


def _as_now(claimed: Sequence[Any]) -> list[Any]:
    """A claim's answer in today's order: it kept specs whole, and said no queue."""
    task_id, counter, spec, attempt, run, losses, at, alone = claimed
    return [task_id, int(counter), spec, at, *map(int, (attempt, run, losses, alone))]


class Relay:
    """Looks like a store; each call goes to one of several, by chance of a seed.

    Attributes:
        calls: (verb, which store) -> calls.
    """

    def __init__(self, stores: Sequence[Store], seed: int) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self._stores = stores
        self._chance = random.Random(seed)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not callable(getattr(self._stores[0], name)):
            return getattr(self._stores[0], name)

        def call(*args: Any, **options: Any) -> Any:
            which = self._chance.randrange(len(self._stores))
            self.calls[name, which] += 1
            verb: Callable[..., Any] = getattr(self._stores[which], name)
            return verb(*args, **options)

        return call
