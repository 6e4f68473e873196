"""Remembers the lambdas that executors have named, so that each call need not name them again.

The names of thousands would be most of what a call of NextWork costs, so they come once.

A call numbers the set of lambdas that it asks for, and the answer gives that number back. Later calls of the call stream give the number alone. An
answer without it says that the set is not known, as after a restart of the controller: then the next call names the lambdas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from atf.rpc import controller_pb2 as c
from atf.rpc.lambda_sets import digest_of

FORGET_S: Final = 900.0
"""Seconds after which the set of a call stream that does not call any more is forgotten; it would be named again."""


class NamedLambdas(NamedTuple):
    """A set of lambdas that executors run."""

    lambdas: frozenset[str]
    signatures: Mapping[str, str]  # by lambda the digest of its signature
    digest: str  # names the set to the HSC


def named(signatures: Mapping[str, str]) -> NamedLambdas:
    """A set by its lambdas, each with the digest of its signature."""
    return NamedLambdas(frozenset(signatures), signatures, digest_of(signatures))


def runs(request: c.NextWorkRequest) -> NamedLambdas:
    """What a request names."""
    return named(dict(zip(request.lambdas, request.signatures, strict=True)))


class _LambdaSet(NamedTuple):
    number: int
    runs: NamedLambdas
    seen_at: float


class LambdaSets:
    """The last set of every call stream of every executor."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], _LambdaSet] = {}

    def asked(self, request: c.NextWorkRequest, now: float) -> NamedLambdas | None:
        """What a checked request asks for; None: it gives the number of a set that is not known here."""
        key = request.executor_id, request.stream
        known = self._sets.get(key)
        if request.lambdas:
            found = self._shared(runs(request))
        elif known is not None and known.number == request.set:
            found = known.runs
        else:
            return None
        if known is None:
            self._sets = {each: named for each, named in self._sets.items() if named.seen_at + FORGET_S > now}
        self._sets[key] = _LambdaSet(request.set, found, now)
        return found

    def _shared(self, found: NamedLambdas) -> NamedLambdas:
        """The same of another call stream, if there is one: most executors of a host run the same lambdas, of which thousands take a MiB."""
        return next((each.runs for each in self._sets.values() if each.runs == found), found)

    def left(self, executor_id: str) -> None:
        """An executor is no more."""
        self._sets = {key: named for key, named in self._sets.items() if key[0] != executor_id}
