"""A small cluster with TLS, tokens, encrypted payloads and a store user for each role, whose secrets are known here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets as chance
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import redis

from atf.auth import secrets
from atf.auth.dev_certificates import DevAuthority
from atf.auth.known_tokens import READ_EVERY_S
from atf.auth.token_record import TokenRecord
from atf.codec.key_file import new_keys, write_keys
from atf.config.settings import StoreSettings, Timing
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.runtime import SystemRuntime
from atf.store.servers.permissions import STORE_USERS, acl_user
from atf.store.store import Store

ROOT: Final = Path(__file__).parents[2]
SUBJECT: Final = "ada"
"""Of the certificate that may do everything at the frontend that goes by certificates."""
TOKENS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "admin": (("admin",), ("*",)),
    "client": (("schedule", "read", "read_payload"), ("own",)),
    "worker": (("work", "schedule", "read"), ("own",)),
    "other worker": (("work", "schedule", "read"), ("other",)),
    "spare worker": (("work", "schedule", "read"), ("own",)),
    "operator": (("read", "operate"), ("own",)),
}
_READY_S: Final = 60.0
_READS: Final = "import sys; from atf.auth import known_tokens; known_tokens.READ_EVERY_S = {}; from atf.cli import main; sys.exit(main(sys.argv[1:]))"
"""`atf`, that looks at the tokens more often."""


class SaidRole:
    """A process, and all that it has written."""

    def __init__(self, name: str) -> None:
        self.name, self.said, self.ready = name, list[str](), dict[str, Any]()
        self.process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self, words: list[str], env: dict[str, str], read_every_s: float) -> None:
        """Starts it, and waits until it serves."""
        command = [sys.executable, "-P", "-c", _READS.format(read_every_s), *words, "--log-format", "json"]
        self.process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=asyncio.subprocess.STDOUT, env=env, cwd=ROOT
        )
        serves = asyncio.Event()
        self._reading = asyncio.create_task(self._read(serves))
        async with asyncio.timeout(_READY_S):
            await serves.wait()
        if not self.ready:
            raise AssertionError("".join(self.said))

    async def _read(self, serves: asyncio.Event) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.said.append(line.decode("utf-8", "replace"))
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if found.get("event") == "ready" and found.get("role") != "executor":
                    self.ready = found
                    serves.set()
        serves.set()

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)
            await self.process.wait()
        if self._reading is not None:
            await self._reading


@dataclass
class SecretiveCluster:
    """What runs, and its secrets."""

    folder: Path
    socket: str
    tokens: dict[str, str]
    passwords: dict[str, str]
    authority: DevAuthority
    store: Store
    """As somebody who may do everything."""
    read_every_s: float
    codec: bool
    """Whether executors have the codec's keys."""
    roles: dict[str, SaidRole] = field(default_factory=dict)
    credentials: list[str] = field(default_factory=list)
    """Of executors, as far as they are known."""

    def url(self, role: str) -> str:
        """The store's address for the user of a role."""
        name = "atf" if role == "server" else f"atf-{role}"
        return f"unix://{name}:{self.passwords[role]}@{self.socket}?db=0"

    def address(self, role: str) -> str:
        return str(self.roles[role].ready["address"])

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    @property
    def codec_keys(self) -> str:
        return str(self.folder / "codec.keys")

    def environment(self, **more: str) -> dict[str, str]:
        """Of a role."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
        return env | {"PYTHONPATH": str(ROOT), "ATF_TLS_CA": self.ca, **more}

    async def start(self, name: str, words: list[str], **env: str) -> None:
        self.roles[name] = role = SaidRole(name)
        await role.start([*words, "--listen", "127.0.0.1:0"], self.environment(**env), self.read_every_s)

    def serving(self, user: str) -> dict[str, str]:
        """The settings of a role that serves by TLS and tokens, and has the store."""
        pair = {"ATF_TLS_CERT": str(self.folder / "server.pem"), "ATF_TLS_KEY": str(self.folder / "server-key.pem")}
        return {"ATF_REDIS_URL": self.url(user), "ATF_AUTH": "token", "ATF_METRICS_LISTEN": "127.0.0.1:0", **pair}

    async def start_worker(self, name: str, *, token: str = "", user: str = "") -> None:
        """A worker host of a namespace; `token`: by another than the one of its name; `user`: as whom its code runs."""
        words = ["worker", f"proof.blast.lambdas:{name}_app", "--hsc", self.address("hsc"), "--threads", "2"]
        usual = "worker" if name == "own" else f"{name} worker"
        path = write(self.folder / f"{token or usual}.token", self.tokens[token or usual])
        env = {"ATF_TOKEN_FILE": path, "ATF_METRICS_LISTEN": "none", "ATF_EXECUTOR_USER": user}
        if self.codec:
            env["ATF_CODEC_KEYS"] = self.codec_keys
        await self.start(token or f"{name} worker", [*words, "--frontend", self.address("frontend")], **env)


def write(path: Path, text: str | bytes) -> str:
    """A file that only its owner can read; its path."""
    path.touch(0o600)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@contextlib.asynccontextmanager
async def running(
    folder: Path, *, certificates: bool = True, codec: bool = False, read_every_s: float = READ_EVERY_S
) -> AsyncIterator[SecretiveCluster]:
    """The cluster.

    Args:
        folder: for its files.
        certificates: whether there are also the pages, and a frontend that goes by certificates.
        codec: whether executors have the codec's keys.
        read_every_s: between two looks at the tokens.
    """
    data = DataDir(folder / "data")
    data.lock()
    async with EmbeddedStore(find_binary(), data) as embedded:
        socket = embedded.url.partition("://")[2].partition("?")[0]
        passwords = {role: f"pw{chance.token_hex(16)}" for role in STORE_USERS}
        with redis.Redis(unix_socket_path=socket) as client:
            for role, password in passwords.items():
                client.execute_command("ACL", "SETUSER", *acl_user(password, role).split()[1:])
        store = await Store.open(StoreSettings(redis_url=embedded.url, partitions=1), Timing(), SystemRuntime())
        authority = DevAuthority(datetime.now(UTC))
        cluster = SecretiveCluster(
            folder, socket, await _tokens(store), passwords, authority, store, read_every_s, codec
        )
        write_keys(cluster.codec_keys, new_keys(), new=True)
        for name, pair in (
            ("ca", authority.pair),
            ("server", authority.server()),
            ("client", authority.client(SUBJECT)),
        ):
            write(folder / f"{name}.pem", pair.certificate)
            write(folder / f"{name}-key.pem", pair.key)
        try:
            await _start(cluster, certificates=certificates)
            yield cluster
        finally:
            for each in reversed(cluster.roles.values()):
                await each.end()
            await store.close()


async def _tokens(store: Store) -> dict[str, str]:
    found = {}
    for name, (verbs, scopes) in TOKENS.items():
        token_id = secrets.new_id(os.urandom)
        found[name] = secrets.new_token(token_id, os.urandom)
        record = TokenRecord(id=token_id, verbs=verbs, scopes=scopes, digest=secrets.digest_of(found[name]))
        await store.set_token(token_id, msgspec.json.encode(record))
    ada = TokenRecord(id=secrets.new_id(os.urandom), verbs=("admin",), scopes=("*",), digest="", subject=SUBJECT)
    await store.set_token(ada.id, msgspec.json.encode(ada))
    return found


async def _start(cluster: SecretiveCluster, *, certificates: bool) -> None:
    by_certificate = cluster.serving("frontend") | {"ATF_AUTH": "mtls", "ATF_TLS_CLIENT_CA": cluster.ca}
    await asyncio.gather(
        cluster.start("frontend", ["frontend"], **cluster.serving("frontend")),
        cluster.start("hsc", ["hsc", "--stop-delay", "0"], **cluster.serving("hsc")),
        cluster.start("store-consumer", ["store-consumer"], **cluster.serving("store-consumer")),
        *([cluster.start("by certificate", ["frontend"], **by_certificate)] if certificates else []),
    )
    ui = ["ui", "--frontend", cluster.address("frontend")]
    await asyncio.gather(
        cluster.start_worker("own"),
        cluster.start_worker("other"),
        *([cluster.start("ui", ui, ATF_AUTH="token")] if certificates else []),
    )
