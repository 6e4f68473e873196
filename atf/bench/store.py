"""Asks the measured store what it is, how it is set, and what it says of its own clock, memory and CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from atf.config.settings import StoreSettings
from atf.runtime import SystemRuntime
from atf.store.servers.check_results import CheckResult
from atf.store.servers.checks import examine, told, used_bytes
from atf.store.servers.connection import Link
from atf.store.servers.modes import open_link
from atf.store.servers.server_info import text
from atf.task import US

HIDDEN: Final = "hidden"
"""Stands for what the store does not show."""
_CPU: Final = ("used_cpu_sys", "used_cpu_user")


class MeasuredStore(NamedTuple):
    """What a store is, and how safe it keeps what it accepts; of several servers that differ every value, with commas."""

    server: str
    appendonly: str
    appendfsync: str

    @classmethod
    def of(cls, results: Sequence[CheckResult]) -> Self:
        """From what the checks of every server that takes writes say."""

        def value(check: str) -> str:
            return ", ".join(dict.fromkeys(each.value for each in results if each.check == check)) or HIDDEN

        return cls(value("version"), value("appendonly"), value("appendfsync"))

    def in_words(self) -> str:
        """For people."""
        return f"{self.server}, appendonly {self.appendonly}, appendfsync {self.appendfsync}"


class TaskStore:
    """A store by its address; `aclose` ends the connection.

    Args:
        redis_url: of the store.
    """

    def __init__(self, redis_url: str) -> None:
        self._link = open_link(StoreSettings(redis_url=redis_url))

    async def found(self) -> MeasuredStore:
        """What it is.

        Raises:
            Unavailable: it can't be reached.
        """
        return MeasuredStore.of(await examine(self._link, SystemRuntime()))

    async def now_s(self) -> float:
        """Its own clock, in seconds since 1970: records hold instants of that one.

        Raises:
            AtfError: it does not say.
        """
        seconds, micros = await (await self._link.masters())[0].command("TIME")
        return int(seconds) + int(micros) / US

    async def used_bytes(self) -> int | None:
        """Bytes of its data; None where it does not say.

        Raises:
            Unavailable: it can't be reached.
        """
        return await used_bytes(self._link)

    async def room_bytes(self) -> int | None:
        """Bytes that its servers which take writes have left up to their maxmemory, together; None where one has no such bound, or does not say.

        Raises:
            Unavailable: one can't be reached.
        """
        total = 0
        for each in await self._link.masters():
            said = await _info(each, "memory")
            most, used = (int(said.get(name, 0)) for name in ("maxmemory", "used_memory"))
            if not most:
                return None
            total += max(most - used, 0)
        return total

    async def cpu_s(self) -> float | None:
        """Seconds of CPU that its servers which take writes have used, for whomever; None where one does not say.

        Raises:
            Unavailable: one can't be reached.
        """
        total = 0.0
        for each in await self._link.masters():
            said = await _info(each, "cpu")
            if not said.keys() >= set(_CPU):
                return None
            total += sum(float(said[name]) for name in _CPU)
        return total

    async def aclose(self) -> None:
        """Ends the connection."""
        await self._link.close()


async def _info(server: Link, section: str) -> dict[str, str]:
    """A section of what a server says of itself; empty where it does not."""
    lines = text(await told(server, "INFO", section) or b"").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
