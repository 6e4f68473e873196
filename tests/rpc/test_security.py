"""Over the wire: whom a server lets in, and that a channel is encrypted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path

import pytest

from atf.auth.caller import Caller, CallerKind, caller
from atf.auth.grants import TokenGrant, Verb
from atf.auth.known_tokens import MOST_AGE_S, READ_EVERY_S
from atf.config.settings import SecuritySettings
from atf.errors import ConfigError, PermissionDenied, Unauthenticated
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, hsc_pb2 as h
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.server import Service, serve
from atf.rpc.server_security import AGAIN_S, ServerSecurity
from atf.rpc.server_tls import server_credentials
from atf.rpc.stubs import FrontendStub, HSCStub

FRONTEND = f.DESCRIPTOR.services_by_name["Frontend"]
HSC = h.DESCRIPTOR.services_by_name["HSC"]


class Door:
    """Knows one caller, by the word `right`."""

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:  # noqa: ARG002
        if shown != "Bearer right":
            raise Unauthenticated("who is that?")
        return Caller(CallerKind.TOKEN, "token x", TokenGrant(frozenset({Verb.WORK}), frozenset({"photos"})))


class Says:
    """An HSC that notes who calls."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def heartbeat(self, request: h.HeartbeatRequest) -> h.HeartbeatReply:  # noqa: ARG002
        self.heard.append(caller().name)
        return h.HeartbeatReply()

    async def _unused(self, request: object) -> object:
        raise AssertionError(request)

    next_claims = report_host = set_results = hand_back = report_loss = first_time = issue_credential = _unused


async def test_a_call_is_let_in_by_what_it_shows(tmp_path: Path) -> None:
    logic = Says()
    server = await serve("127.0.0.1:0", [Service(HSC, logic)], security=ServerSecurity(Door()))
    shown = tmp_path / "token"
    shown.write_text("right\n")
    for security, refused in (
        (Security(), Unauthenticated),
        (Security(token="wrong"), Unauthenticated),
        (Security(token_file=str(shown)), None),
    ):
        channel = open_channel(server.address, security=security)
        call = HSCStub(channel).heartbeat(h.HeartbeatRequest(executor_id="e"))
        if refused is None:
            await call
        else:
            with pytest.raises(refused, match="who is that"):
                await call
        await channel.close()
    assert logic.heard == ["token x"]
    await server.stop(0)


async def test_what_the_caller_has_no_verb_for_is_refused_before_it_is_read() -> None:
    refuse = ServerSecurity(Door(), check_method=_refuse)
    server = await serve("127.0.0.1:0", [Service(HSC, Says())], security=refuse)
    channel = open_channel(server.address, security=Security(token="right"))
    with pytest.raises(PermissionDenied, match="not that"):
        await HSCStub(channel).heartbeat(h.HeartbeatRequest(executor_id="e"))
    await channel.close()
    await server.stop(0)


def _refuse(path: str, who: Caller) -> None:
    raise PermissionDenied(f"{who.name}: not that: {path}")


@pytest.mark.parametrize(
    ("address", "lacks"), [("0.0.0.0:7401", "TLS and tokens"), ("[::]:7401", "TLS"), ("10.0.0.1:1", "insecure")]
)
def test_other_machines_are_listened_to_with_tls_and_tokens_alone(address: str, lacks: str) -> None:
    with pytest.raises(ConfigError, match=lacks):
        SecuritySettings().check_listen(address)
    with pytest.raises(ConfigError, match="no tokens"):
        SecuritySettings(tls_cert="c", tls_key="k").check_listen(address)
    SecuritySettings(insecure=True).check_listen(address)
    SecuritySettings(tls_cert="c", tls_key="k", auth="token").check_listen(address)
    SecuritySettings().check_listen("127.0.0.1:7401")


def test_a_certificate_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        server_credentials(SecuritySettings(tls_cert=str(tmp_path / "c"), tls_key=str(tmp_path / "k")))
    with pytest.raises(ConfigError, match="belong together"):
        SecuritySettings(tls_cert="c")


class Opens:
    """A frontend whose streams stay open: one that sends, one that is sent to."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def watch_log(self, request: f.WatchLogRequest) -> AsyncGenerator[f.GetLogReply, None]:  # noqa: ARG002
        try:
            yield f.GetLogReply(why_none=caller().name)
            await asyncio.Event().wait()
        finally:
            self.ended.append("watch_log")

    async def schedule_batch(self, requests: AsyncIterator[b.ScheduleBatchRequest]) -> b.ScheduleBatchReply:
        try:
            async for _ in requests:
                pass
        finally:
            self.ended.append("schedule_batch")
        return b.ScheduleBatchReply()

    def __getattr__(self, name: str) -> object:
        return None  # the other methods, which nobody calls here


class ShortLived:
    """Knows a token until it is revoked."""

    revoked = False

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:  # noqa: ARG002
        if self.revoked:
            raise Unauthenticated("the token x was revoked")
        return Caller(CallerKind.TOKEN, "token x", TokenGrant(frozenset({Verb.ADMIN}), frozenset({"photos"})))


async def test_an_open_stream_ends_when_its_token_is_revoked() -> None:
    logic, door = Opens(), ShortLived()
    security = ServerSecurity(door, again_s=0.02)
    server = await serve("127.0.0.1:0", [Service(FRONTEND, logic)], security=security)
    channel = open_channel(server.address, security=Security(token="t"))
    stub = FrontendStub(channel)
    watching = stub.watch_log(f.WatchLogRequest(id="0-a"))
    assert (await anext(watching)).why_none == "token x"

    async def sent() -> AsyncIterator[b.ScheduleBatchRequest]:
        yield b.ScheduleBatchRequest()
        await asyncio.Event().wait()

    sending = asyncio.ensure_future(stub.schedule_batch(sent()))
    await asyncio.sleep(0.1)  # both are checked some times, and stay open
    assert not logic.ended
    door.revoked = True
    for each in (anext(watching), sending):
        with pytest.raises(Unauthenticated, match="was revoked"):
            await asyncio.wait_for(each, 5)
    assert sorted(logic.ended) == ["schedule_batch", "watch_log"]
    await channel.close()
    await server.stop(0)


def test_a_revoked_token_is_of_no_use_to_a_stream_after_30_seconds() -> None:
    assert READ_EVERY_S + AGAIN_S < MOST_AGE_S == 30
