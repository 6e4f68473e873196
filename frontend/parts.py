"""What the RPCs of one frontend share: the store, its copy of the registry, and what waits or counts for all callers."""

from __future__ import annotations

from collections import Counter

from atf.calls.single_flight import SingleFlight
from atf.config.settings import FrontendSettings
from atf.runtime import Runtime
from atf.store.store import Store

from .audit import AuditLog
from .lambdas import Lambdas
from .pending import PARTS, PendingLimits
from .pools import KnownPools
from .redaction import Redaction
from .standing import StandingReads
from .waiting import TaskWaits


class FrontendParts:
    """The base of the classes that answer RPCs; service.py puts them together. One that needs another's answers is derived from it.

    Args:
        store: where everything is.
        settings: of the frontend.
        runtime: clocks, chance and tasks.
        parts: into how many the room below a `max_pending` is cut (pending.py).
    """

    def __init__(self, *, store: Store, settings: FrontendSettings, runtime: Runtime, parts: int = PARTS) -> None:
        self._store, self._settings, self._runtime = store, settings, runtime
        self._cap = settings.max_attempts_cap
        self._audit = AuditLog(store, runtime)
        self._lambdas = Lambdas(store, runtime)
        self._pending = PendingLimits(store, runtime, parts)
        self._pools = KnownPools(store, self._lambdas)
        self._redaction = Redaction(self._lambdas)
        self._standing = StandingReads(store, self._lambdas, runtime)
        self._waiting = TaskWaits(store, runtime)
        self._now_us = SingleFlight(store.time_us)
        self._watchers: Counter[str] = Counter()
        """Calls of WatchLog by whose they are; who has none is not in it."""
        self._draining = False

    def drain(self) -> None:
        """Ends the long polls and the streams: their callers ask again, and reach another frontend."""
        self._draining = True
        self._waiting.drain()
