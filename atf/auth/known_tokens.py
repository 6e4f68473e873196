"""Keeps what a process knows of the installation's tokens: all of them, read anew every few seconds, so that a check asks nobody.

A token that is not known may have been made a moment ago: then the table is read once more, but not more often than once a second (after LOOKS), so that
whoever shows wrong ones causes no work. A table that could not be read anew for MOST_AGE_S is believed no more: what was revoked meanwhile
would be valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from atf.errors import AtfError, Unavailable
from atf.log import get_logger
from atf.runtime import Runtime

from .token_record import TokenRecord

READ_EVERY_S: Final = 10.0
SOONEST_S: Final = 1.0
"""Seconds between two readings for the sake of tokens that are not known, once LOOKS have been made."""
LOOKS: Final = 10
"""Such readings that may come at once, as when several tokens get new secrets at the same time."""
MOST_AGE_S: Final = 30.0

_log = get_logger()


@dataclass(frozen=True)
class TokenTable:
    """All tokens of an installation.

    Attributes:
        version: grows with each change.
        tokens: by id.
        keys: what credentials of executors are signed with: the newest first; those after it only check.
    """

    version: int = 0
    tokens: Mapping[str, TokenRecord] = field(default_factory=dict)
    keys: Sequence[bytes] = ()


class KnownTokens:
    """The table, as this process knows it.

    Args:
        read: reads the table, unless it has this version still: then None.
        runtime: clocks.
    """

    def __init__(self, read: Callable[[int], Awaitable[TokenTable | None]], runtime: Runtime) -> None:
        self._read, self._runtime = read, runtime
        self._table = TokenTable()
        self._by_subject: dict[str, TokenRecord] = {}
        self._read_at = float("-inf")
        self._looks, self._looks_at = float(LOOKS), 0.0
        """How often the table may be read for the sake of tokens that are not known, as it was then."""
        self._reading = asyncio.Lock()

    async def run(self) -> None:
        """Keeps the table new, until it is cancelled."""
        while True:
            try:
                await self.refresh()
            except AtfError as error:
                _log.warning("the tokens can't be read", error=str(error))
            await asyncio.sleep(READ_EVERY_S)

    async def refresh(self) -> None:
        """Reads the table anew, now.

        Raises:
            AtfError: the store did not answer.
        """
        async with self._reading:
            began = self._runtime.monotonic()
            table = await self._read(self._table.version)
            self._read_at = began
            if table is not None:
                self._table = table
                self._by_subject = {each.subject: each for each in table.tokens.values() if each.subject}

    async def token(self, token_id: str, *, again: bool = False) -> TokenRecord | None:
        """A token by its id; None: there is none. `again`: perhaps it has a new secret.

        Raises:
            Unavailable: the table is too old to be believed, and the store does not answer.
        """
        await self._keep_fresh()
        found = self._table.tokens.get(token_id)
        if (again or found is None) and await self._looked_again():
            found = self._table.tokens.get(token_id)
        return found

    async def of_subject(self, subject: str) -> TokenRecord | None:
        """What the subject of a certificate may do. Raises as `token`."""
        await self._keep_fresh()
        found = self._by_subject.get(subject)
        if found is None and await self._looked_again():
            found = self._by_subject.get(subject)
        return found

    async def keys(self, *, again: bool = False) -> list[bytes]:
        """What credentials of executors are signed with; `again`: perhaps there is a new one. Raises as `token`."""
        await self._keep_fresh()
        if again:
            await self._looked_again()
        return list(self._table.keys)

    async def _keep_fresh(self) -> None:
        if self._runtime.monotonic() - self._read_at < MOST_AGE_S:
            return
        try:
            await self.refresh()
        except AtfError as error:
            raise Unavailable(f"the tokens can't be read, so no caller can be known: {error}") from None

    async def _looked_again(self) -> bool:
        if self._reading.locked():  # somebody looks just now: what that finds counts for this one, too
            async with self._reading:
                return True
        now = self._runtime.monotonic()
        self._looks = min(LOOKS, self._looks + (now - self._looks_at) / SOONEST_S)
        self._looks_at = now
        if self._looks < 1:
            return False
        self._looks -= 1
        await self.refresh()
        return True
