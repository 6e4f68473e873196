"""Knows which executors are here, by their calls, and what they run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from atf.runtime import Runtime

from .lambda_sets import NamedLambdas, named

HERE_S: Final = 120.0
"""Seconds since its last call that an executor is here whose guard is not this controller's: twice what a call waits. One that has no
room asks for nothing meanwhile; of those that are guarded here it is known when they end."""


class ExecutorsHere:
    """The executors of one controller."""

    def __init__(self, runtime: Runtime, guarded: Collection[str]) -> None:
        self._runtime = runtime
        self._guarded = guarded
        self._called_at: dict[str, float] = {}
        self._runs: dict[str, NamedLambdas] = {}
        self._asked: set[tuple[str, str]] = set()
        """Executor and digest of what its call streams have asked for: of these nothing is new."""

    def called(self, executor_id: str, asked: NamedLambdas) -> bool:
        """An executor asks for work. Returns whether it is new here, or runs more than was known."""
        self._called_at[executor_id] = self._runtime.monotonic()
        if (executor_id, asked.digest) in self._asked:
            return False
        self._asked.add((executor_id, asked.digest))
        before = self._runs.get(executor_id)
        after = named({**(before.signatures if before else {}), **asked.signatures})
        self._runs[executor_id] = next((each for each in self._runs.values() if each == after), after)
        return before is None or before.digest != after.digest

    def left(self, executor_id: str) -> bool:
        """An executor is no more. Returns whether it was here."""
        self._called_at.pop(executor_id, None)
        self._asked = {each for each in self._asked if each[0] != executor_id}
        return self._runs.pop(executor_id, None) is not None

    def runs(self) -> dict[str, NamedLambdas]:
        """All that each executor here runs. Those that have not called for long are no more."""
        now = self._runtime.monotonic()
        for each in [each for each, at in self._called_at.items() if at + HERE_S < now and each not in self._guarded]:
            self.left(each)
        return dict(self._runs)
