"""Calls a frontend in this process as if it were at the other end of a connection, from any event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from google.protobuf.message import Message

from atf.errors import DeadlineExceeded, Unavailable
from atf.runtime import Runtime, end

from .own_frontend import Opener, OwnFrontend, told

R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Message)


class DirectChannel:
    """A rpc.channel.StreamingChannel without a connection. Each event loop that calls has a frontend of its own, opened by its first call.

    Args:
        where: the store's name for people.
        opener: opens a frontend.
        runtime: clocks and chance.
    """

    def __init__(self, where: str, opener: Opener, runtime: Runtime) -> None:
        self.address = where
        self._opener, self._runtime = opener, runtime
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = WeakKeyDictionary()
        self._closed = False

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:  # noqa: ARG002
        mine = self._mine()
        with mine.errors(path, timeout):
            async with mine.within(timeout):
                answer: R = await (await mine.frontend()).method(path)(request)
        return answer

    async def send(
        self,
        path: str,
        requests: AsyncIterator[S],
        request: type[S],  # noqa: ARG002
        reply: type[R],  # noqa: ARG002
        timeout: float,
    ) -> R:
        mine = self._mine()
        with mine.errors(path, timeout):
            async with mine.within(timeout):
                answer: R = await (await mine.frontend()).method(path)(requests)
        return answer

    async def receive(
        self,
        path: str,
        request: Message,
        reply: type[R],  # noqa: ARG002
        timeout: float,
    ) -> AsyncGenerator[R, None]:
        mine, until = self._mine(), asyncio.get_running_loop().time() + timeout
        with mine.errors(path, timeout):
            async with mine.within(timeout):
                frontend = await mine.frontend()
            async with aclosing(frontend.method(path)(request)) as answers:
                while True:
                    async with mine.within(until - asyncio.get_running_loop().time()):
                        answer: R | None = await anext(answers, None)
                    if answer is None:
                        return
                    yield answer

    def _mine(self) -> _OfLoop:
        if self._closed:
            raise Unavailable("the client is closed")
        loop = asyncio.get_running_loop()
        found = self._loops.get(loop)
        if found is None:
            found = self._loops[loop] = _OfLoop(self._opener, self._runtime)
        return found

    def forked(self) -> list[Any]:
        """What a child process must leave untouched."""
        inherited, self._loops = [self._loops, *self._loops.items()], WeakKeyDictionary()
        return inherited

    async def close(self) -> None:
        """Ends the frontends. Calls that wait, and later ones, raise Unavailable."""
        self._closed = True
        here = asyncio.get_running_loop()
        for loop, each in list(self._loops.items()):
            if loop is here:
                await each.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(each.close(), loop))


class _OfLoop:
    """The frontend of one event loop, and what waits for it."""

    def __init__(self, opener: Opener, runtime: Runtime) -> None:
        self._opener, self._runtime = opener, runtime
        self._opening: asyncio.Task[OwnFrontend] | None = None
        self._frontend: OwnFrontend | None = None
        self._waiting: set[asyncio.Timeout] = set()
        self._closed = False

    async def frontend(self) -> OwnFrontend:
        """The frontend, once it is open. It is opened for all who call; one whose time is over leaves, and the opening goes on."""
        if self._frontend is None:
            if self._opening is None or self._opening.done():
                self._opening = self._runtime.spawn(self._opener(self._runtime), name="open the task store")
                self._opening.add_done_callback(_seen)
            await asyncio.wait({self._opening})
            self._frontend = self._opening.result()
        return self._frontend

    @contextlib.contextmanager
    def errors(self, path: str, timeout: float) -> Iterator[None]:
        """What is raised within is what a caller of a server would be told."""
        try:
            yield
        except TimeoutError:
            name = path.rpartition("/")[2]
            if self._closed:
                raise Unavailable(f"{name}: the client was closed") from None
            raise DeadlineExceeded(f"{name}: the task store did not answer within {timeout:.3g} s") from None
        except Exception as error:
            raised = told(path, error)
            if raised is error:
                raise
            raise raised from error

    @contextlib.asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        async with asyncio.timeout(seconds) as waiting:
            self._waiting.add(waiting)
            try:
                yield
            finally:
                self._waiting.discard(waiting)

    async def close(self) -> None:
        self._closed = True
        for each in self._waiting:
            each.reschedule(0)
        if self._opening is None:
            return
        await end([self._opening])
        if not self._opening.cancelled() and self._opening.exception() is None:
            frontend = self._opening.result()
            frontend.drain()
            await frontend.store.close()


def _seen(opening: asyncio.Task[OwnFrontend]) -> None:
    """Its failure concerns those who still wait for it."""
    if not opening.cancelled():
        opening.exception()
