"""A frontend with TLS, certificates of callers and tokens, all of which are replaced while calls go on; and one without any of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from atf.auth import secrets
from atf.auth.dev_certificates import DevAuthority, Pair
from atf.auth.grants import Verb
from atf.auth.token_record import TokenRecord
from atf.config.settings import StoreSettings, Timing
from atf.rpc import api, frontend_pb2 as f
from atf.rpc.caller_security import Security
from atf.rpc.channel import StreamingChannel, open_channel
from atf.rpc.stubs import FrontendStub
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.task import US

from .processes import running

LAMBDA: Final = "rotation/held"
_ID: Final = "rotationaa"
_OVERLAP_S: Final = 10.0
"""For which the secret before is valid, or until the next one is made: callers look for the new one once a second."""


def put(path: Path, content: bytes) -> None:
    """Replaces a file in one step."""
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)


@dataclass
class Secured:
    """Files of both sides, and the frontend at `address`."""

    folder: Path
    address: str
    rotations: int = 0

    def __post_init__(self) -> None:
        self.security = Security(
            token_file=str(self.folder / "token"),
            tls_ca=str(self.folder / "ca.pem"),
            tls_cert=str(self.folder / "client.pem"),
            tls_key=str(self.folder / "client-key.pem"),
        )

    def open(self) -> tuple[api.Frontend, StreamingChannel]:
        """A connection that shows the certificate and the token."""
        channel = open_channel(self.address, security=self.security)
        return FrontendStub(channel), channel

    async def rotate(self, authority: DevAuthority, frontend: api.Frontend) -> None:
        """Gives both sides new certificates, and the caller a new secret."""
        self.rotations += 1
        put_pair(self.folder, "server", authority.server())
        put_pair(self.folder, "client", authority.client())
        token = secrets.new_token(_ID, os.urandom)
        request = f.RotateTokenRequest(id=_ID, digest=secrets.digest_of(token), overlap_us=round(_OVERLAP_S * US))
        await frontend.rotate_token(request)
        put(self.folder / "token", token.encode())


def put_pair(folder: Path, name: str, pair: Pair) -> None:
    """Replaces a certificate and its key, one after the other."""
    put(folder / f"{name}.pem", pair.certificate)
    put(folder / f"{name}-key.pem", pair.key)


async def put_token(redis_url: str, token: str, *verbs: Verb) -> None:
    """Has the store know a token for all namespaces."""
    store = await Store.open(StoreSettings(redis_url=redis_url, partitions=1), Timing(), SystemRuntime())
    name = token.split("_")[1]
    record = TokenRecord(id=name, digest=secrets.digest_of(token), verbs=tuple(sorted(verbs)), scopes=("*",))
    await store.set_token(name, msgspec.json.encode(record))
    await store.close()


@contextlib.asynccontextmanager
async def secured_frontend(redis_url: str, folder: Path) -> AsyncIterator[tuple[Secured, DevAuthority]]:
    """A frontend process that answers callers with a certificate and a token alone."""
    authority, token = DevAuthority(datetime.now(UTC)), secrets.new_token(_ID, os.urandom)
    put(folder / "ca.pem", authority.pair.certificate)
    put_pair(folder, "server", authority.server())
    put_pair(folder, "client", authority.client())
    put(folder / "token", token.encode())
    await put_token(redis_url, token, Verb.ADMIN)
    words = ["--auth", "mtls", "--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server-key.pem")]
    async with frontend_process(redis_url, *words, "--tls-client-ca", str(folder / "ca.pem")) as address:
        secured = Secured(folder, address)
        frontend, channel = secured.open()
        spec = f.LambdaSpec(name=LAMBDA)
        await frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[spec]))
        await channel.close()
        yield secured, authority


@contextlib.asynccontextmanager
async def frontend_process(redis_url: str, *words: str) -> AsyncIterator[str]:
    """A frontend of its own; its address."""
    given = ["frontend", "--listen", "127.0.0.1:0", "--metrics-listen", "none", *words]
    async with running(*given, env={"ATF_REDIS_URL": redis_url}) as ready:
        yield ready["address"]
