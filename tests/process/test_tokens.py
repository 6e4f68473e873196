"""A frontend that wants tokens, as a real process on a real store: whom it lets in, and until when."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest

from atf import AsyncClient
from atf.auth import secrets
from atf.client.own_frontend import open_frontend
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.errors import AtfError, PermissionDenied, Unauthenticated, UnknownLambda
from atf.rpc import frontend_pb2 as f
from atf.rpc.stubs import FrontendStub
from atf.runtime import SystemRuntime

from .roles import end, line

pytestmark = pytest.mark.processes
READ_EVERY_S = 0.2
"""In place of the product's 10 s, so that nobody waits for them."""
CODE = f"""
import sys
from atf.auth import known_tokens
from atf.config.settings import FrontendSettings, LogSettings, SecuritySettings, StoreSettings, Timing
from atf.frontend.main import main
known_tokens.READ_EVERY_S = {READ_EVERY_S}
raise SystemExit(main(
    FrontendSettings(listen="127.0.0.1:0"), StoreSettings(redis_url=sys.argv[1]), Timing(), LogSettings(log_format="json"),
    SecuritySettings(auth="token"),
))
"""


async def made(elsewhere: FrontendStub, **more: int) -> str:
    """A token for `photos`, which another process makes."""
    token_id = secrets.new_id(os.urandom)
    token = secrets.new_token(token_id, os.urandom)
    given = {"id": token_id, "digest": secrets.digest_of(token), "verbs": ["schedule"], "scopes": ["photos"]}
    await elsewhere.create_token(f.CreateTokenRequest(**given, who="ada", **more))  # type: ignore[arg-type]
    return token


async def answer(address: str, token: str, lambda_name: str = "photos/resize") -> AtfError:
    """What comes of a call: no lambda is registered, so whoever is let in learns that."""
    async with AsyncClient(address, token=token or None) as client:
        with pytest.raises(AtfError) as raised:
            await client.schedule(lambda_name, {})
    return raised.value


async def test_a_frontend_lets_in_by_valid_tokens_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATF_TOKEN", raising=False)
    data = DataDir(tmp_path / "data")
    data.lock()
    async with EmbeddedStore(find_binary(), data) as store:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", CODE, store.url), stdin=DEVNULL, stderr=PIPE
        )
        channel = open_frontend(store.url, SystemRuntime(), operator=True)
        elsewhere = FrontendStub(channel)
        try:
            address = (await line(process, "ready"))["address"]
            right, expired, revoked = [await made(elsewhere, expires_in_us=us) for us in (0, 1, 0)]
            await elsewhere.revoke_token(f.RevokeTokenRequest(id=revoked[4:14], who="ada"))

            assert isinstance(await answer(address, right), UnknownLambda), "what was made is valid at once"
            assert isinstance(await answer(address, right, "mail/send"), PermissionDenied | UnknownLambda)
            wrong = right[:-4] + ("AAAA" if right[-4:] != "AAAA" else "BBBB")
            for token, why in (("", "no token"), (wrong, "not known"), (expired, "expired"), (revoked, "revoked")):
                error = await answer(address, token)
                assert isinstance(error, Unauthenticated)
                assert why in str(error)
                assert not token or token[15:] not in str(error)

            await elsewhere.revoke_token(f.RevokeTokenRequest(id=right[4:14], who="ada"))
            async with asyncio.timeout(20 * READ_EVERY_S):
                while not isinstance(await answer(address, right), Unauthenticated):
                    await asyncio.sleep(READ_EVERY_S / 4)
        finally:
            await channel.close()
            process.terminate()
            await end(process)
