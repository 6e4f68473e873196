"""Closes automatic gates: a pass tells of lambdas that fail in its partition, and all partitions together decide.

A lambda that nobody has dealt with is told of again a second later; so a failure here needs no memory, and peers do no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from atf.calls.retry import Trouble
from atf.errors import AtfError
from atf.log import get_logger
from atf.runtime import Runtime
from atf.store.store import Store
from atf.store.values.audit import AuditEntry

_log = get_logger(duty="gates")


class AutomaticGates:
    """Judges failing lambdas, each once at a time."""

    def __init__(self, *, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._works: dict[str, asyncio.Task[None]] = {}
        self._trouble = Trouble(_log, "automatic gate")

    def add(self, names: Iterable[str]) -> None:
        """Has lambdas judged soon."""
        for name in names:
            if name not in self._works:
                self._works[name] = self._runtime.spawn(self._judge(name), name=f"judge {name}")

    async def idle(self) -> None:
        """Waits until all that was taken has been judged."""
        await asyncio.gather(*self._works.values())

    async def _judge(self, name: str) -> None:
        try:
            gate = await self._store.judge(name)
            self._trouble.ended(name)
            if gate is not None:
                _log.warning("automatic gate closed", name=name, why=gate.why)
                entry = AuditEntry("set_gate", name, {}, gate.who, gate.why, "pause, automatic")
                _log.info("audit", **entry.logged())
                await self._store.add_audit([entry])
        except AtfError as error:
            self._trouble.failed(name, error)
        finally:
            del self._works[name]
