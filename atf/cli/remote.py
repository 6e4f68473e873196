"""Calls the frontend for a command: one connection, one question, one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from atf.config.loading import load
from atf.config.settings import FRONTEND_PORT, setting
from atf.config.store_urls import is_store_url
from atf.errors import Unavailable
from atf.rpc import api
from atf.runtime import SystemRuntime

from .caller import NAMES, security
from .options import kept

if TYPE_CHECKING:
    from google.protobuf.message import Message

R = TypeVar("R")


@dataclass(frozen=True)
class FrontendAddress:
    """Where the frontend is that commands ask."""

    frontend: str = setting(f"127.0.0.1:{FRONTEND_PORT}", "address of the frontend")


def ask(question: Callable[[api.Frontend], Awaitable[R]], at: str | None = None, *, operator: bool = False) -> R:
    """Puts a question to the frontend.

    Args:
        question: what to do with the connection.
        at: the frontend's address; None: from --frontend, ATF_FRONTEND, atf.toml, or the default.
        operator: whether the address of a task store will do, whatever that store allows: who reaches it may do it anyway.

    Raises:
        AtfError: what the frontend answered; Unavailable: it was not reached.
    """
    given = kept("frontend") if at is None else at
    return asyncio.run(_ask(load(FrontendAddress, {"frontend": given}).frontend, question, operator))


async def _ask(address: str, question: Callable[[api.Frontend], Awaitable[R]], operator: bool) -> R:
    async with connect(address, operator=operator) as stub:
        try:
            return await question(stub)
        except Unavailable as error:
            if "can't reach" not in str(error) or is_store_url(address):
                raise
            where = "is `atf up` running? Give its address by --frontend or ATF_FRONTEND"
            raise Unavailable(f"no frontend answers at {address}: {where}") from None


@asynccontextmanager
async def connect(address: str, *, operator: bool = False) -> AsyncIterator[api.Frontend]:
    """The frontend at `address`, host:port, or one of its own on a task store; `operator` as of `ask`. A call that has no time of its own takes as long as a client's."""
    from atf.client.own_frontend import open_frontend
    from atf.client.retrying import DEFAULT_TIMEOUT, call_timeout
    from atf.rpc.channel import open_channel
    from atf.rpc.stubs import FrontendStub

    class PatientFrontend(FrontendStub):
        async def _call(self, method: str, request: Message, timeout: float) -> Any:
            return await super()._call(method, request, seconds if timeout == DEFAULT_TIMEOUT else timeout)

    seconds = call_timeout(None)
    channel = (
        open_frontend(address, SystemRuntime(), operator=operator)
        if is_store_url(address)
        else open_channel(address, security=security({name: kept(name) for name in NAMES}))
    )
    try:
        yield PatientFrontend(channel)
    finally:
        await channel.close()
