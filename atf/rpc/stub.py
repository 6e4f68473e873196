"""Makes stubs: a method of an interface of api.py becomes a call of the server at the other end of a channel."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, NamedTuple, ParamSpec, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:  # it loads gRPC, of which a frontend within this process has no need
    from .channel import Channel, StreamingChannel

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate[Any, P], T]


class _Rpc(NamedTuple):
    path: str
    request: type[Message]
    reply: type[Message]


class Stub:
    """One service of the server at the other end of a channel."""

    service: ClassVar[ServiceDescriptor]
    _rpcs: ClassVar[dict[str, _Rpc]]
    """By the names of the methods."""

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "service"):
            cls._rpcs = {
                snake_case(name): _Rpc(
                    f"/{cls.service.full_name}/{name}",
                    GetMessageClass(each.input_type),
                    GetMessageClass(each.output_type),
                )
                for name, each in cls.service.methods_by_name.items()
            }

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    async def _call(self, method: str, request: Message, timeout: float) -> Any:
        path, _, reply = self._rpcs[method]
        return await self.channel.call(path, request, reply, timeout)


class StreamingStub(Stub):
    """A service some of whose methods take or give streams."""

    channel: StreamingChannel

    def __init__(self, channel: StreamingChannel) -> None:
        super().__init__(channel)


def unary(method: Method[P, T]) -> Method[P, T]:
    """A call of one request and one reply."""
    name = method.__name__

    async def call(self: Stub, request: Message, *, timeout: float = _usual_timeout(method)) -> Any:
        return await self._call(name, request, timeout)

    return call  # type: ignore[return-value]  # it takes what the interface says


def sends(method: Method[P, T]) -> Method[P, T]:
    """A call of many requests and one reply."""
    name = method.__name__

    async def call(
        self: StreamingStub, requests: AsyncIterator[Message], *, timeout: float = _usual_timeout(method)
    ) -> Any:
        path, request, reply = self._rpcs[name]
        return await self.channel.send(path, requests, request, reply, timeout)

    return call  # type: ignore[return-value]


def receives(method: Method[P, T]) -> Method[P, T]:
    """A call of one request and many replies."""
    name = method.__name__

    def call(
        self: StreamingStub, request: Message, *, timeout: float = _usual_timeout(method)
    ) -> AsyncGenerator[Message, None]:
        path, _, reply = self._rpcs[name]
        return self.channel.receive(path, request, reply, timeout)

    return call  # type: ignore[return-value]


def _usual_timeout(method: Any) -> float:
    seconds: float = method.__kwdefaults__["timeout"]
    return seconds


def snake_case(name: str) -> str:
    """The Python name of an RPC: ScheduleMany is schedule_many."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
