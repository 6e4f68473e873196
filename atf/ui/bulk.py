"""Does something to all tasks that match a filter, or only counts them: page by page, for a few seconds at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

SECONDS: Final = 5.0
"""That one count or one action takes at most; what is left then is said, and done by the next."""
SHOWN_IDS: Final = 5
SHOWN_ERRORS: Final = 10


@dataclass
class MatchTally:
    """What was found, and done."""

    matched: int = 0
    done: int = 0
    looked_at: int = 0
    ids: list[str] = field(default_factory=list)
    """Of the first that match."""
    errors: Counter[str] = field(default_factory=Counter)
    """By which they failed."""
    more: bool = False
    """Whether the time was over before all were looked at."""


async def page_by_page(request: Any, call: Callable[[Any], Awaitable[Any]], done: Callable[[Any], int]) -> MatchTally:
    """All pages of a call, as far as the time goes.

    Args:
        request: of the first page.
        call: the RPC; its replies have matched, looked_at, ids and next_page_token.
        done: how many a reply says that it has changed.
    """
    tally, until = MatchTally(), asyncio.get_running_loop().time() + SECONDS
    while True:
        reply = await call(request)
        tally.matched += reply.matched
        tally.done += done(reply)
        tally.looked_at += reply.looked_at
        tally.ids += reply.ids[: SHOWN_IDS - len(tally.ids)]
        tally.errors.update(dict(getattr(reply, "errors", {})))
        request.page_token = reply.next_page_token
        if not request.page_token:
            return tally
        if asyncio.get_running_loop().time() > until:
            tally.more = True
            return tally
