"""Calls that answer more than once: each message is an answer of its own, asked for when the one before was taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

from atf.errors import DeadlineExceeded, Unavailable

from .loop import PROCESS, SimProcess

if TYPE_CHECKING:
    from .net import Net

SILENT_S: Final = 20.0
"""After so long without a message the caller takes the connection for broken."""


async def streamed(
    net: Net, address: str, roles: dict[str, Any], name: str, request: Any, timeout: float
) -> AsyncGenerator[Any, None]:
    """What a role streams, as its caller hears it. A message whose packet is doubled or lost is missed; the next one, too, says it all.

    Raises:
        Unavailable: the stream broke off.
    """
    data, turn = request.SerializeToString(), asyncio.Lock()
    made: list[tuple[SimProcess | None, AsyncGenerator[Any, None]]] = []

    async def perform() -> Any:
        here = PROCESS.get()
        if made and made[0][0] is not here:
            raise Unavailable(f"{name}: {address} has been started anew, and knows nothing of the stream")
        async with turn:
            if not made:
                made.append((here, getattr(roles[address], name)(type(request).FromString(data), timeout=timeout)))
                net.keep(made[0][1])
            message = await anext(made[0][1], None)
        return None if message is None else (type(message), message.SerializeToString())

    async def close() -> None:
        async with turn:
            await made[0][1].aclose()

    try:
        while True:
            try:
                reply = await net.call(address, name, perform, min(timeout, SILENT_S))
            except DeadlineExceeded as error:
                raise Unavailable(f"the stream broke off: {error}") from error
            if reply is None:
                return
            kind, message = reply
            yield kind.FromString(message)
    finally:
        if made and made[0][0] is not None:
            net.hang_up(made[0][0], close)
