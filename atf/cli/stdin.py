"""Rows from stdin, each as soon as it comes. Whoever waits for the next one does not block the event loop, so that Ctrl-C ends it."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Final, TypeVar

from atf.errors import InvalidArgument

T = TypeVar("T")

_AHEAD: Final = 1_000
"""Elements that are read before somebody takes them."""


@dataclass(frozen=True)
class _End:
    """Nothing comes behind it."""

    error: BaseException | None


def open_stdin() -> IO[str]:
    """Stdin as text, a file object of its own: a thread that is left waiting in it holds no lock that the interpreter's end needs.

    Raises:
        InvalidArgument: it is closed.
    """
    try:
        return open(sys.stdin.fileno(), encoding="utf-8-sig", newline="", closefd=False)
    except (AttributeError, OSError, ValueError) as error:
        raise InvalidArgument(f"stdin can't be read: {error}") from None


async def read_as_they_come(elements: Iterator[T]) -> AsyncGenerator[T, None]:
    """The elements of an iterator that may wait for long. It runs on a thread of its own, for which the process does not wait at its end.

    Raises:
        Whatever the iterator raises, behind what it gave.
    """
    found: queue.Queue[T | _End] = queue.Queue(_AHEAD)
    loop, some = asyncio.get_running_loop(), asyncio.Event()

    def put(each: T | _End) -> None:
        found.put(each)
        if not some.is_set():  # it is cleared before the queue is emptied, never after
            loop.call_soon_threadsafe(some.set)

    def read() -> None:
        error: BaseException | None = None
        with suppress(RuntimeError):  # the loop is closed: nobody takes anything any more
            try:
                for each in elements:
                    put(each)
            except BaseException as raised:  # noqa: BLE001  whoever takes the elements raises it
                error = raised
            put(_End(error))

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while True:
        await some.wait()
        some.clear()
        while not found.empty():
            each = found.get_nowait()
            if not isinstance(each, _End):
                yield each
            elif each.error is not None:
                raise each.error
            else:
                return
