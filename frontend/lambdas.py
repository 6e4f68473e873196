"""Keeps a copy of the store's registry of lambdas, at most a second old.

A lambda that the copy lacks is looked for in the store before it is called unknown, since another frontend may have
registered it a moment ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from atf.auth.caller import caller
from atf.calls.single_flight import SingleFlight
from atf.errors import Unavailable, UnknownLambda
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.runtime import Runtime
from atf.store.store import Store
from atf.store.values.lambdas import LambdaRecord
from atf.task import check_lambda

from .settings import in_force
from .validate import check_options, filled_in, shown
from .view import stored

_FRESH_S: Final = 1.0
_PATIENCE_S: Final = 0.3
"""Seconds that a call waits for a fresher copy."""
_NEAREST: Final = 3
_COMPARED: Final = 200
"""Names that one is compared with; that takes some 10 ms."""
_HINTS_PER_S: Final = 10
"""Errors of unknown lambdas that name the nearest ones: one call may name a thousand, and all others would wait for their hints."""
_REMEMBERED: Final = 256
"""Options of requests that are kept filled in, per lambda; most requests of one lambda have the same."""
_REMEMBERED_BYTES: Final = 256


class KnownLambda:
    """A registered lambda."""

    def __init__(self, record: LambdaRecord, spec: f.LambdaSpec) -> None:
        self.record = record
        self.spec = spec
        self.in_force = in_force(spec, record.overrides)
        self._options = filled_in(spec.options)
        self._remembered: dict[bytes, t.TaskOptions] = {}

    def options(self, asked: t.TaskOptions) -> t.TaskOptions:
        """A task's options, checked and with every field set: as asked for, else the lambda's own. Not to be changed.

        Raises:
            InvalidArgument: an option breaks its rule.
        """
        key = asked.SerializeToString(deterministic=True)
        full = self._remembered.get(key)
        if full is None:
            check_options(asked)
            full = filled_in(asked, self._options)
            full.DiscardUnknownFields()
            if len(key) <= _REMEMBERED_BYTES and len(self._remembered) < _REMEMBERED:
                self._remembered[key] = full
        return full


class Lambdas:
    """The copy of the registry."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._known: dict[str, KnownLambda] = {}
        self._read: Mapping[str, LambdaRecord] = {}
        self._read_at = float("-inf")
        self.refresh: SingleFlight[None] = SingleFlight(self._refresh)
        """Reads the registry."""
        self._refreshing: asyncio.Task[None] | None = None
        self._hints, self._hinting_since = 0, float("-inf")

    async def load(self, names: Iterable[str]) -> None:
        """Makes sure that the copy is fresh, and that a name it lacks was not registered by now.

        All records lie in one partition. While that one is away, an older copy will do for those it has.
        """
        if any(name not in self._known for name in names):
            await self.refresh()
        elif self._runtime.monotonic() - self._read_at > _FRESH_S:
            refreshing = self._refreshing  # when it has ended, another call may have begun the next one already
            if refreshing is None or refreshing.done():
                refreshing = self._refreshing = self._runtime.spawn(self.refresh(), name="refresh lambdas")
                refreshing.add_done_callback(_seen)
            done, _ = await asyncio.wait({refreshing}, timeout=_PATIENCE_S)
            if done and isinstance(error := refreshing.exception(), Exception) and not isinstance(error, Unavailable):
                raise error

    async def _refresh(self) -> None:
        at = self._runtime.monotonic()
        records = await self._store.list_lambdas()
        if records is not self._read:
            self._known = {name: self._parsed(record) for name, record in records.items()}
        self._read, self._read_at = records, at

    def knows(self, name: str) -> bool:
        """Whether the copy has a lambda."""
        return name in self._known

    def get(self, name: str) -> KnownLambda:
        """A lambda of the copy.

        Raises:
            UnknownLambda: there is none of this name; the message names the nearest.
        """
        known = self._known.get(name)
        if known is None:
            raise self.unknown(name)
        return known

    async def known(self, name: str) -> KnownLambda:
        """A lambda by the name that a caller gives, which another frontend may have registered a moment ago.

        Raises:
            InvalidArgument: no lambda can be called so.
            UnknownLambda: there is none of this name; the message names the nearest.
        """
        check_lambda(shown(name))
        await self.load([name])
        return self.get(name)

    def unknown(self, name: str) -> UnknownLambda:
        """The error that names the nearest lambdas of the copy."""
        who, hint = caller(), ""
        if self._may_hint():
            hint = did_you_mean(name, filter(who.sees, self._known))
        if not self._known:
            hint = "; there are none yet: start an executor with your app, or run atf lambda register MODULE:APP"
        return UnknownLambda(f"no lambda {name!r} is registered{hint or '; atf lambda lists those that are'}")

    def _may_hint(self) -> bool:
        now = self._runtime.monotonic()
        if now - self._hinting_since >= 1:
            self._hints, self._hinting_since = 0, now
        self._hints += 1
        return self._hints <= _HINTS_PER_S

    def find(self, name: str) -> KnownLambda | None:
        """A lambda of the copy; None: there is none of this name."""
        return self._known.get(name)

    def all(self) -> list[KnownLambda]:
        """Every lambda of the copy, by name."""
        return [self._known[name] for name in sorted(self._known)]

    def _parsed(self, record: LambdaRecord) -> KnownLambda:
        known = self._known.get(record.name)
        if known is not None and known.record == record:
            return known
        return KnownLambda(record, spec_of(record))


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The nearest names, to stand behind a sentence; empty where none is near."""
    import difflib

    likely = sorted(names, key=lambda each: (each[:3] != name[:3], each))[:_COMPARED]
    near = difflib.get_close_matches(name, likely, n=_NEAREST, cutoff=0.6)
    return f". Did you mean {' or '.join(near)}?" if near else ""


def spec_of(record: LambdaRecord) -> f.LambdaSpec:
    """What a lambda's code says."""
    # Where somebody has damaged it the others go on, and the next executor registers it anew.
    return stored(f.LambdaSpec, record.spec) or f.LambdaSpec(name=record.name)


def _seen(refreshing: asyncio.Task[None]) -> None:
    """Its failure concerns those who still wait for it, and nobody else."""
    if not refreshing.cancelled():
        refreshing.exception()
