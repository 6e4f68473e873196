"""Tells the cluster that a role's process lives, and says in its log what is wrong with the task store's settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from atf import __version__
from atf.errors import AtfError
from atf.log import Logger
from atf.metrics.table import STORE_CHECK_FAILED
from atf.runtime import Runtime, happens
from atf.store.servers.check_results import CheckResult, ResultChanges, State
from atf.store.status import LiveRole
from atf.store.store import Store

from .name import process_name

_ANNOUNCE_S: Final = 10.0
"""Seconds between two times that a process tells the cluster that it lives; three times as long it counts as alive."""
LOOK_AGAIN_S: Final = 60.0
"""Seconds between two looks at the task store's settings; each is about fifty small commands."""
_LEVELS: Final = {State.OK: 0, State.WARN: 1, State.REFUSE: 2}
"""How a check stands, as a metric."""


class StoreWatch:
    """Watches the store of one process.

    Args:
        roles: whose work the process does.
        store: its own.
        runtime: its clock.
        log: its log.
        stopping: set once it was asked to end.
    """

    def __init__(
        self, roles: Sequence[str], store: Store, runtime: Runtime, log: Logger, stopping: asyncio.Event
    ) -> None:
        self._me = [LiveRole(role, __version__, process_name()) for role in roles]
        self._store, self._runtime, self._log, self._stopping = store, runtime, log, stopping
        self._changes = ResultChanges()
        self._said: set[str] = set()
        """Check results, by name."""

    async def run(self) -> None:
        """Says now and then that this process lives, and what becomes wrong with the task store's settings or is mended."""
        said, looked_at = "", self._runtime.monotonic()
        while not await happens(self._stopping, _ANNOUNCE_S):
            if self._runtime.monotonic() - looked_at < LOOK_AGAIN_S:
                await self._announce()
                continue
            looked_at = self._runtime.monotonic()
            try:
                results = await self._store.examine()
            except AtfError:
                continue  # whoever needs it says so
            except Exception as error:  # noqa: BLE001  an answer that nobody thought of must not end all later looks
                if repr(error) != said:
                    said = repr(error)
                    self._log.exception("can't judge the task store's settings", error=said)
                continue
            await self.say(results)

    async def say(self, results: Sequence[CheckResult]) -> None:
        """Says what has become wrong, unless another process of the cluster has, and what is mended of that."""
        levels: dict[tuple[str, ...], float] = {}
        for each in results:
            levels[(each.check,)] = max(levels.get((each.check,), 0), _LEVELS[each.state])
        self._store.metrics.replace(STORE_CHECK_FAILED, levels)
        came, went = self._changes.news(results)
        new = await self._announce()
        for each in came:
            if new.get(each.name, True):
                self._said.add(each.name)
                self._log.warning("task store", warning=each.sentence)
        for each in went:
            if each.name in self._said:
                self._said.remove(each.name)
                self._log.info("task store is mended", check=each.check, store=each.where)

    async def _announce(self) -> dict[str, bool]:
        """Tells the cluster that this process lives; returns of each check result, by its name, whether nobody has said it yet."""
        names = [each.name for each in self._changes.known]
        try:
            new = await self._store.announce(self._me, 3 * _ANNOUNCE_S, names)
            return dict(zip(names, new, strict=True))
        except AtfError:  # a warning too many is better than none
            return {}
