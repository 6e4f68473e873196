"""Knows which arguments lambdas declare for search, so that tasks which jobs and batches make are found by them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from atf.errors import AtfError
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.runtime import Runtime
from atf.sdk.search import searched_values
from atf.store import keys
from atf.store.store import Store

_FRESH_S: Final = 1.0

Declared = Mapping[str, Sequence[str]]
"""By lambda the arguments that it declares; those that declare none are left out."""

NOTHING_DECLARED: Final[Declared] = MappingProxyType({})


class SearchedArguments:
    """What the lambdas declare, as it was a second ago at most; older while the registry can't be read.

    Args:
        store: which has the registry.
        runtime: clocks.
    """

    def __init__(self, *, store: Store, runtime: Runtime) -> None:
        self._store, self._runtime = store, runtime
        self._read_at = float("-inf")
        self._records: Mapping[str, object] = {}
        self._declared: Declared = {}

    async def declared(self) -> Declared:
        """What the lambdas declare."""
        now_s = self._runtime.monotonic()
        if now_s - self._read_at < _FRESH_S:
            return self._declared
        try:
            records = await self._store.list_lambdas()
        except AtfError:  # nothing waits for it: a task that is not found by its arguments is better than none
            return self._declared
        if records is not self._records:
            specs = {name: _spec(record.spec) for name, record in records.items()}
            self._declared = {name: [*spec.search] for name, spec in specs.items() if spec.search}
        self._records, self._read_at = records, now_s
        return self._declared


def entries_of(spec: t.TaskSpec, declared: Declared) -> str:
    """The entries of a task in the index, as the store keeps them."""
    names = declared.get(getattr(spec, "lambda"))
    return keys.entries(searched_values(names, spec.payload, spec.encoding)) if names else ""


def _spec(stored: bytes) -> f.LambdaSpec:
    try:
        return f.LambdaSpec.FromString(stored)
    except Exception:  # noqa: BLE001  somebody has damaged it; the others go on
        return f.LambdaSpec()
