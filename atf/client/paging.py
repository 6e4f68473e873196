"""Reads listings page by page. Every list RPC has page_size and page_token in its request, and next_page_token in its reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

from atf.task import MAX_BATCH


class _Page(Protocol):
    @property
    def next_page_token(self) -> str: ...


Reply = TypeVar("Reply", bound=_Page)
T = TypeVar("T")


async def pages(call: Callable[[Any], Awaitable[Reply]], request: Any) -> AsyncIterator[Reply]:
    """All pages of a listing. `call` is the RPC, `request` what it is asked; its page_size and page_token are set here."""
    request.page_size = MAX_BATCH
    while True:
        reply = await call(request)
        yield reply
        request.page_token = reply.next_page_token
        if not request.page_token:
            return


async def entries(
    call: Callable[[Any], Awaitable[Reply]], request: Any, items: Callable[[Reply], Iterable[T]], limit: int
) -> list[T]:
    """The first entries of a listing.

    Args:
        call: the RPC.
        request: what it is asked; its page_size and page_token are set here.
        items: the entries of a page.
        limit: how many at most.
    """
    found: list[T] = []
    while len(found) < limit:
        request.page_size = min(limit - len(found), MAX_BATCH)
        reply = await call(request)
        found += items(reply)
        request.page_token = reply.next_page_token
        if not request.page_token:
            break
    return found[:limit]
