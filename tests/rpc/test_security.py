"""Over the wire: whom a server lets in, and that a channel is encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from atf.auth.caller import Caller, CallerKind, caller
from atf.auth.grants import TokenGrant, Verb
from atf.config.settings import SecuritySettings
from atf.errors import ConfigError, PermissionDenied, Unauthenticated
from atf.rpc import hsc_pb2 as h
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.server import Service, serve
from atf.rpc.server_security import ServerSecurity
from atf.rpc.server_tls import server_credentials
from atf.rpc.stubs import HSCStub

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
