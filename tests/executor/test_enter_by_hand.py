"""An executor that was started by hand enters without telling its token to whoever listens there."""

from __future__ import annotations

import io
import sys
from typing import Final

import pytest

from atf.auth.by_hand import is_proof
from atf.executor import enter_by_hand
from atf.exits import EXIT_OK
from atf.rpc import controller_pb2 as c, task_pb2 as t
from atf.runtime import SystemRuntime

TOKEN: Final = "atf_abcdefghij_" + "s" * 43


class Listener:
    """Whoever holds the port: channel and stub."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def enter(self, request: c.EnterRequest, *, timeout: float) -> t.Credential:  # noqa: ARG002
        self.shown.append(request.secret)
        return t.Credential(secret="the credential")

    async def close(self) -> None:
        """As a channel."""


def test_whoever_listens_is_not_told_the_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = Listener()
    monkeypatch.setattr(enter_by_hand, "hide_memory", lambda: None)
    monkeypatch.setattr(enter_by_hand, "open_channel", lambda _address, security: listener)  # noqa: ARG005
    monkeypatch.setattr(enter_by_hand, "ControllerStub", lambda channel: channel)
    monkeypatch.setattr(sys, "stdin", io.StringIO(TOKEN + "\n"))
    assert enter_by_hand.main(["e1", "127.0.0.1:1"]) == EXIT_OK
    assert capsys.readouterr().out == "the credential"
    (shown,) = listener.shown
    assert TOKEN not in shown
    assert "s" * 43 not in shown
    assert is_proof(shown, TOKEN, "e1", SystemRuntime().wall_us())
