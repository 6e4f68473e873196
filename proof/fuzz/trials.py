"""Shows what is not valid at each door of an `atf server`, many times, and looks at the answers, the log and whether others are served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from atf.auth import secrets
from atf.auth.executor_credentials import Credential, sign
from atf.auth.grants import Verb
from atf.auth.signing_keys import FIELD, new_key
from atf.auth.token_record import TokenRecord
from atf.config.settings import StoreSettings, Timing
from atf.runtime import SystemRuntime
from atf.store.store import Store

from .doors import DOORS, EXPECTED, Addresses, ask, call, sign_in
from .shown import ValidSecrets

EACH: Final = 1_000
"""Tries between two looks whether those with a right token are served."""
_ROOT: Final = Path(__file__).parents[2]
_MOST_FINDINGS: Final = 20
_LEAST_SECRET: Final = 16
"""Characters of a secret that the log must not have in a row."""
_BUGS: Final = ("call failed", "page failed", "Traceback", "Unexpected", "can't be served", "connection broke off")
"""What a line of the log has that tells of a bug."""


@dataclass
class FuzzTally:
    """What came of the tries."""

    tries: int = 0
    answers: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in DOORS})
    findings: list[str] = field(default_factory=list)
    served: int = 0
    """Times that those with a right token were served, at each door."""
    memory_mib: list[float] = field(default_factory=list)
    """Of the server, after each EACH tries."""

    def found(self, what: str) -> None:
        """Something that must not be."""
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(what)


class FuzzedServer:
    """An `atf server` that wants tokens, and all that it has logged."""

    def __init__(self, process: Process, addresses: Addresses, valid: ValidSecrets) -> None:
        self.addresses, self.valid, self.process = addresses, valid, process
        self.log: list[str] = []

    async def read_log(self) -> None:
        """Until the end."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.log.append(line.decode(errors="replace"))

    def memory_mib(self) -> float:
        """What it holds now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)


@contextlib.asynccontextmanager
async def fuzzed_server(redis_url: str, seed: int) -> AsyncIterator[FuzzedServer]:
    """Starts one, with tokens that are valid, that were revoked, and that have expired."""
    valid = await _prepared(redis_url, random.Random(f"{seed} secrets"))
    words = [
        "--auth",
        "token",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
        "--ui-listen",
        "127.0.0.1:0",
    ]
    words += ["--dapr-http", "127.0.0.1:0", "--log-level", "debug"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    env |= {"PYTHONPATH": str(_ROOT), "ATF_REDIS_URL": redis_url, "ATF_LOG_FORMAT": "json"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "atf.cli", "server", *words, stderr=PIPE, env=env, limit=1 << 20
    )
    try:
        addresses = await _addresses(process)
        valid = replace(valid, session=await sign_in(addresses, valid.token))
        server = FuzzedServer(process, addresses, valid)
        reading = asyncio.ensure_future(server.read_log())
        yield server
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    await reading


async def _prepared(redis_url: str, chance: random.Random) -> ValidSecrets:
    runtime = SystemRuntime()
    now = runtime.wall_us()
    store = await Store.open(StoreSettings(redis_url=redis_url, partitions=1), Timing(), runtime)
    tokens = {}
    for name, revoked_us, expires_us in (("fuzzaaaaaa", 0, 0), ("fuzzbbbbbb", 1, 0), ("fuzzcccccc", 0, 1)):
        tokens[name] = secrets.new_token(name, chance.randbytes)
        record = TokenRecord(
            id=name,
            digest=secrets.digest_of(tokens[name]),
            verbs=(Verb.ADMIN,),
            scopes=("*",),
            revoked_us=revoked_us,
            expires_us=expires_us,
        )
        await store.set_token(name, msgspec.json.encode(record))
    key = new_key(now, chance.randbytes)
    await store.set_token(FIELD, msgspec.json.encode([key]))
    await store.close()
    valid, *others = tokens.values()
    return ValidSecrets(valid, (*others, sign(Credential("fuzzaaaaaa", now - 1, "host-1"), key)))


async def _addresses(process: Process) -> Addresses:
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(30):
        while line := await process.stderr.readline():
            said += line
            if line.startswith(b"{") and (found := json.loads(line))["event"] == "ready":
                return Addresses(found["address"], found["dapr_http"], found["metrics"], found["ui"])
    raise AssertionError(said.decode())


async def fuzz(server: FuzzedServer, count: int, seed: int, *, at_once: int = 16) -> FuzzTally:
    """Shows `count` things at doors by chance.

    Args:
        server: whose.
        count: how many.
        seed: of chance.
        at_once: tries that are under way together.
    """
    tally = FuzzTally()
    numbers = iter(range(count))

    async def some(upto: int) -> None:
        for number in numbers:
            await _tried(server, seed, number, tally)
            if number >= upto:
                return

    while tally.tries < count:
        upto = tally.tries + EACH - at_once
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(some(upto))
        await _look(server, tally)
    return tally


async def _tried(server: FuzzedServer, seed: int, number: int, tally: FuzzTally) -> None:
    chance = random.Random(f"{seed} {number}")
    name = chance.choice(list(DOORS))
    answer = await DOORS[name](server.addresses, chance, server.valid)
    tally.tries += 1
    tally.answers[name][answer] += 1
    if answer not in EXPECTED[name]:
        tally.found(f"try {number}: {name} answered {answer}")


async def _look(server: FuzzedServer, tally: FuzzTally) -> None:
    """Whether those with a right token are served at each door, and what the log has."""
    at, right = server.addresses, f"Bearer {server.valid.token}"
    answers = {
        "gRPC": await call(at.rpc, "/atf.v1.Frontend/GetCaller", [("authorization", right)]),
        "Dapr's HTTP": await ask(at.dapr, "GET /v1.0/jobs/none", [("authorization", right), ("dapr-app-id", "orders")]),
        "metrics": await ask(at.metrics, "GET /metrics", [("authorization", right)]),
        "page": await ask(at.pages, "GET /tasks", [("Cookie", f"atf_session={server.valid.session}")]),
    }
    for name, answer in answers.items():
        if answer != {"gRPC": "OK", "Dapr's HTTP": "404"}.get(name, "200"):
            tally.found(f"after {tally.tries} tries {name} answered a right token with {answer}")
        else:
            tally.served += 1
    tally.memory_mib.append(server.memory_mib())
    text = "".join(server.log)
    server.log.clear()
    for each in _BUGS:
        if each in text:
            tally.found(f"after {tally.tries} tries the log has {each!r}: {text[text.index(each) - 200 :][:600]}")
    for secret in (server.valid.token, *server.valid.others, server.valid.session):
        if secret.rpartition("_")[2][:_LEAST_SECRET] in text or secret[-_LEAST_SECRET:] in text:
            tally.found(f"after {tally.tries} tries the log has the secret of {secret[:15]}")
