"""Carries calls to a service of this very process: a stub on such a channel calls it directly, without bytes and without a connection.

A deadline and an error mean what they mean over gRPC. A message is handed on as it is: who has sent one changes it no more, and who
has got an answer only reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from atf.errors import AtfError, DeadlineExceeded, Internal
from atf.log import get_logger

from .stub import snake_case

R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Message)

_log = get_logger()


class LocalChannel:
    """A channel to one service of this process.

    Args:
        service: what it is.
        logic: the object that answers its calls, as `serve` takes it.
        let_in: lets pass a call, by its path; None: all.
    """

    def __init__(
        self, service: ServiceDescriptor, logic: object, let_in: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        self.address = "this process"
        self._let_in = let_in
        self._methods: dict[str, Any] = {
            f"/{service.full_name}/{name}": getattr(logic, snake_case(name)) for name in service.methods_by_name
        }

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:  # noqa: ARG002
        """As of Channel."""
        return cast("R", await self._answered(path, request, timeout))

    async def send(
        self,
        path: str,
        requests: AsyncIterator[S],
        request: type[S],  # noqa: ARG002
        reply: type[R],  # noqa: ARG002
        timeout: float,
    ) -> R:
        """As of StreamingChannel."""
        return cast("R", await self._answered(path, requests, timeout))

    async def receive(
        self,
        path: str,
        request: Message,
        reply: type[R],  # noqa: ARG002
        timeout: float,
    ) -> AsyncGenerator[R, None]:
        """As of StreamingChannel."""
        deadline = _Deadline(path, timeout)
        if self._let_in is not None:
            await self._let_in(path)
        async with aclosing(self._methods[path](request)) as answers:
            while True:
                async with deadline.kept():
                    answer = await anext(answers, None)
                if answer is None:
                    return
                yield answer

    async def close(self) -> None:
        """There is nothing to close."""

    async def _answered(self, path: str, asked: object, timeout: float) -> Any:
        async with _Deadline(path, timeout).kept():
            if self._let_in is not None:
                await self._let_in(path)
            return await self._methods[path](asked)


class _Deadline:
    """When a call must have been answered, and what its errors are for the caller."""

    def __init__(self, path: str, timeout: float) -> None:
        self._method, self._timeout = path.rpartition("/")[2], timeout
        self._until = asyncio.get_running_loop().time() + timeout

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[None, None]:
        bound = asyncio.timeout_at(self._until)
        try:
            async with bound:
                yield
        except AtfError:
            raise
        except Exception as error:  # noqa: BLE001  a bug in one call is its caller's Internal, as over gRPC
            if isinstance(error, TimeoutError) and bound.expired():
                raise DeadlineExceeded(f"{self._method}: no answer within {self._timeout:g} s") from None
            _log.exception("call failed", method=self._method, error=type(error).__name__)
            raise Internal(f"{self._method} failed inside this process; its log has the details") from None
