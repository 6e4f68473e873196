"""The details of health of a role that has a task store."""

from __future__ import annotations

import asyncio
from typing import Final

from atf.errors import AtfError, Unavailable
from atf.store.claim_pause import ClaimPause
from atf.store.store import Store

from .health import Detail

LOOK_S: Final = 3.0
"""Seconds that the task store has to answer in."""


def of_store(store: Store | None) -> dict[str, Detail]:
    """The details of a role that has a task store; None: it has not reached it yet."""

    async def look() -> list[ClaimPause | Unavailable | None]:
        if store is None:
            raise Unavailable("the task store has not been reached since this process started; its log says why")
        try:
            async with asyncio.timeout(LOOK_S):
                found = await store.claim_pauses()
        except TimeoutError:
            raise Unavailable(f"the task store does not answer within {LOOK_S:g} s") from None
        if all(isinstance(each, Unavailable) for each in found):
            raise Unavailable(str(found[0]))
        return found

    async def reachable() -> str:
        try:
            found = await look()
        except AtfError as error:
            return str(error)
        away = [str(each) for each in found if isinstance(each, Unavailable)]
        return f"{len(away)} of {len(found)} partitions can't be reached: {away[0]}" if away else ""

    async def given() -> str:
        try:
            pause = ClaimPause.longest_of(await look())
        except AtfError as error:
            return f"whether claims are given is not known: {error}"
        return pause.sentence if pause else ""

    return {"store": reachable, "claims": given}
