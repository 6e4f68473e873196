"""The lambdas that executors have named, so that not each call need name them again: of thousands that would be most of its cost.

A call of NextWork numbers the set of lambdas that it asks for. Later calls of its lane give the number alone. Whoever does not know it, as
a controller that has just started, asks for the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from atf.rpc import controller_pb2 as c

from .demand import Lambdas, signed

FORGET_S: Final = 900.0
"""Seconds after which the set of a lane that does not call any more is forgotten; it would be named again."""


class Runs(NamedTuple):
    """What a call asks for."""

    lambdas: Lambdas
    signatures: Mapping[str, str]  # by lambda the digest of its signature; of none where the executor does not say
    signed: Lambdas  # "<lambda> <digest>"


def runs(request: c.NextWorkRequest) -> Runs:
    """What a request names."""
    signatures = dict(zip(request.lambdas, request.signatures, strict=True)) if request.signatures else {}
    return Runs(frozenset(request.lambdas), signatures, signed(signatures))


class _Named(NamedTuple):
    number: int
    runs: Runs
    seen_at: float


class Named:
    """The last set of every lane of every executor."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], _Named] = {}

    def asked(self, request: c.NextWorkRequest, now: float) -> Runs | None:
        """What a checked request asks for; None: it gives the number of a set that is not known here."""
        key = request.executor_id, request.lane
        known = self._sets.get(key)
        if request.lambdas:
            found = runs(request)
        elif known is not None and known.number == request.set:
            found = known.runs
        else:
            return None
        if known is None:
            self._sets = {each: named for each, named in self._sets.items() if named.seen_at + FORGET_S > now}
        self._sets[key] = _Named(request.set, found, now)
        return found

    def left(self, executor_id: str) -> None:
        """An executor is no more."""
        self._sets = {key: named for key, named in self._sets.items() if key[0] != executor_id}
