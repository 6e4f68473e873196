"""Knows which executors are here, by their calls, and what they run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from atf.runtime import Runtime

from .demand import Lambdas

PRESENT_S: Final = 60.0
"""Seconds since its last call that an executor is here whose guard is not this controller's: twice what a call waits. One that has no
room asks for nothing meanwhile; of those that are guarded here it is known when they end."""


class PresentExecutors:
    """The executors of one controller.

    Attributes:
        called_at: the executors here, and when each called last.
        gone: those that are here no more, until whoever has to know takes them out.
    """

    def __init__(self, runtime: Runtime, guarded: Collection[str]) -> None:
        self.called_at: dict[str, float] = {}
        self.gone: set[str] = set()
        self._runtime = runtime
        self._guarded = guarded
        self._lambdas: dict[str, Lambdas] = {}
        self._signed: dict[str, Lambdas] = {}
        self._ended = False

    def called(self, executor_id: str, lambdas: Lambdas, signed: Lambdas) -> tuple[bool, bool]:
        """An executor asks for work. Returns whether it is new here, and whether it runs a signature of which nothing was known here."""
        known = self._signed.get(executor_id, frozenset())
        new_signature = not signed <= known and not signed <= self.signed()
        if not signed <= known:
            self._signed[executor_id] = known | signed
        if self._ended:
            return False, new_signature
        new_here = executor_id not in self.called_at
        self.called_at[executor_id] = self._runtime.monotonic()
        self._lambdas[executor_id] = self._lambdas.get(executor_id, frozenset()) | lambdas
        self.gone.discard(executor_id)
        return new_here, new_signature

    def lambdas(self) -> Lambdas:
        """All that they run, also those that have no room."""
        return frozenset[str]().union(*self._lambdas.values())

    def signed(self) -> Lambdas:
        """The signatures that they run, "<lambda> <digest>"."""
        return frozenset[str]().union(*self._signed.values())

    def left(self, executor_id: str) -> bool:
        """An executor is no more. Returns whether it was here."""
        self._signed.pop(executor_id, None)
        if self.called_at.pop(executor_id, None) is None:
            return False
        del self._lambdas[executor_id]
        self.gone.add(executor_id)
        return True

    def forget_silent(self) -> bool:
        """Those that have not called for long are no more. Returns whether some went."""
        now = self._runtime.monotonic()
        silent = [each for each, seen in self.called_at.items() if seen + PRESENT_S < now and each not in self._guarded]
        for each in silent:
            self.left(each)
        return bool(silent)

    def leave(self) -> None:
        """None are here any more, whoever calls."""
        self._ended = True
        self.gone.update(self.called_at)
        self.called_at.clear()
        self._lambdas.clear()
        self._signed.clear()
