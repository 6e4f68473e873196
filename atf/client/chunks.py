"""Cuts what a caller gives as a batch's items into chunks, as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import islice
from typing import Any, Final

from atf.runtime import happens

from .submit import CHUNK_S, Chunk, Chunker

_AT_ONCE: Final = 1_000
"""Elements that are taken in before others on the loop have a turn."""


def chunks_of(chunker: Chunker, items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Chunk, None]:
    """The chunks of all items; of an async iterable also what was taken in, where the next element is long in coming. Close it."""
    return _timely(chunker, _cut(chunker, items)) if isinstance(items, AsyncIterable) else _cut(chunker, items)


async def _cut(chunker: Chunker, items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Chunk, None]:
    if isinstance(items, AsyncIterable):
        async with _closing(items):
            async for each in items:
                for chunk in chunker.add((each,)):
                    yield chunk
        return
    iterator, before = iter(items), -1
    while chunker.taken != before:
        before = chunker.taken
        for chunk in chunker.add(islice(iterator, _AT_ONCE)):
            yield chunk
        await asyncio.sleep(0)


async def _timely(chunker: Chunker, chunks: AsyncGenerator[Chunk, None]) -> AsyncGenerator[Chunk, None]:
    """The chunks; and what was taken in, where the next element is long in coming."""
    pump = _ChunkReader(chunks)
    try:
        while True:
            if not await happens(pump.came, CHUNK_S):
                if chunker.waits():
                    yield chunker.rest(last=False)
            elif (chunk := pump.take()) is None:
                return
            else:
                yield chunk
                pump.ask()
    finally:
        await pump.end()


class _ChunkReader:
    """Reads chunks in one asyncio task for their whole life: a caller's generator may hold a timeout or a TaskGroup across its yields, and
    those interrupt the task that entered them. It reads on only when it is asked to, so that memory holds no more than two chunks.

    Attributes:
        came: set when there is a chunk to take, or the end.
    """

    def __init__(self, chunks: AsyncGenerator[Chunk, None]) -> None:
        self.came = asyncio.Event()
        self._asked = asyncio.Event()
        self._chunk: Chunk | None = None
        self._ending = False
        self._task = asyncio.ensure_future(self._read(chunks))
        self._task.add_done_callback(lambda _: self.came.set())

    async def _read(self, chunks: AsyncGenerator[Chunk, None]) -> None:
        async with aclosing(chunks):
            async for self._chunk in chunks:
                self.came.set()
                await self._wait()

    async def _wait(self) -> None:
        interrupted: asyncio.CancelledError | None = None
        while not self._asked.is_set():
            try:
                await self._asked.wait()
            except asyncio.CancelledError as error:
                if self._ending:
                    raise
                interrupted = error
        self._asked.clear()
        if interrupted is not None:  # by what the generator holds, which looks for it where it waits next, and counts
            self._task.uncancel()
            self._task.cancel(*interrupted.args)

    def take(self) -> Chunk | None:
        """The chunk that came; None: there are no more. Raises what the elements did."""
        chunk, self._chunk = self._chunk, None
        if chunk is None:
            self._task.result()
        else:
            self.came.clear()
        return chunk

    def ask(self) -> None:
        """Has the next chunk read."""
        self._asked.set()

    async def end(self) -> None:
        """Closes the chunks, in the task that read them."""
        self._ending = True
        self._task.cancel()  # once: a generator may take its time to close
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.exception()  # seen, though nobody asks any more


@asynccontextmanager
async def _closing(items: AsyncIterable[Any]) -> AsyncIterator[None]:
    """Closes a generator behind its reader, in the same task. What ended the reader counts, not what the generator says of it: a
    TaskGroup makes an error of every end.
    """
    try:
        yield
    finally:
        if isinstance(items, AsyncGenerator):
            with suppress(Exception, BaseExceptionGroup):
                await items.aclose()


def skip(items: Iterable[Any] | AsyncIterable[Any], count: int) -> Iterable[Any] | AsyncIterable[Any]:
    """The elements behind the first so many."""
    return _skip_async(items, count) if isinstance(items, AsyncIterable) else islice(items, count, None)


async def _skip_async(items: AsyncIterable[Any], count: int) -> AsyncIterator[Any]:
    async with _closing(items):
        async for each in items:
            if count > 0:
                count -= 1
            else:
                yield each
