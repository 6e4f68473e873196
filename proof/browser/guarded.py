"""Serves pages behind a login, over encrypted tasks: `python -m proof.browser.guarded FOLDER`, which ends when it is asked to.

Prints as JSON where the pages are, whose tokens sign in, ids of tasks, and how to revoke a token. Runs in ATF's own environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import atf
from atf.auth import secrets
from atf.client.own_frontend import open_frontend
from atf.codec.key_file import new_keys, write_keys
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import frontend_pb2 as f
from atf.rpc.stubs import FrontendStub
from atf.runtime import SystemRuntime

HOLDERS: Final[dict[str, tuple[list[str], list[str]]]] = {
    "reader": (["read"], ["cards"]),
    "operator": (["read", "read_payload", "operate"], ["cards"]),
    "caller": (["schedule", "read", "read_payload"], ["cards"]),
    "worker": (["work", "read"], ["cards"]),
}
"""Whose tokens there are, with verbs and namespaces."""
_LINES: Final = 200


async def main(folder: Path) -> None:
    """Until SIGTERM."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    keys = str(folder / "codec.keys")
    write_keys(keys, new_keys(), new=True)
    data = DataDir(folder / "data")
    data.lock()
    async with EmbeddedStore(find_binary(), data) as store, AsyncExitStack() as ends:
        channel = open_frontend(store.url, SystemRuntime(), operator=True)
        ends.push_async_callback(channel.close)
        tokens = {name: await _token(FrontendStub(channel), name) for name in HOLDERS}
        serve = ("server", "--auth", "token", "--redis-url", store.url, "--listen", "127.0.0.1:0")
        server = await _started(ends, *serve, "--ui-listen", "127.0.0.1:0", "--metrics-listen", "none")
        where = await _ready(server)
        work = ("worker", "proof.browser.vault:app", "--server", where["address"], "--listen", "127.0.0.1:0")
        await _ready(await _started(ends, *work, ATF_TOKEN=tokens["worker"], ATF_CODEC_KEYS=keys))
        ids = await _filled(where["address"], tokens["caller"], keys)
        revoke = ["token", "revoke", tokens["operator"].split("_")[1], "--frontend", store.url]
        print(json.dumps({"ui": where["ui"], "tokens": tokens, "ids": ids, "revoke": revoke}), flush=True)
        await asked.wait()


async def _token(frontend: FrontendStub, name: str) -> str:
    verbs, scopes = HOLDERS[name]
    token_id = secrets.new_id(os.urandom)
    token = secrets.new_token(token_id, os.urandom)
    digest = secrets.digest_of(token)
    await frontend.create_token(
        f.CreateTokenRequest(id=token_id, digest=digest, verbs=verbs, scopes=scopes, pools=["*"], note=name, who="ada")
    )
    return token


async def _started(ends: AsyncExitStack, *words: str, **env: str) -> Process:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atf.cli", *words, "--log-format", "json"), stderr=PIPE, env={**os.environ, **env}
    )

    async def end() -> None:
        if child.returncode is None:
            child.terminate()
        assert child.stderr is not None
        await child.stderr.read()
        await child.wait()

    ends.push_async_callback(end)
    return child


async def _ready(child: Process) -> dict[str, Any]:
    assert child.stderr is not None
    said: list[str] = []
    while len(said) < _LINES and (line := (await child.stderr.readline()).decode()):
        said.append(line)
        if line.startswith("{") and (found := json.loads(line)).get("event") == "ready":
            return dict(found)
    raise RuntimeError(f"not ready: {''.join(said)[-2_000:]}")


async def _filled(address: str, token: str, keys: str) -> dict[str, str]:
    async with atf.AsyncClient(address, token=token, codec_keys=keys) as client:
        paid = await client.schedule("cards/pay", {"card": "4711 0815", "sum": 20})
        refused = await client.schedule("cards/pay", {"card": "4711 0815", "sum": 2_000})
        later = await client.schedule("cards/pay", {"card": "4711 0815", "sum": 7}, delay=86_400)
        await client.wait([paid, refused], timeout=60)
        return {"paid": paid.id, "refused": refused.id, "later": later.id}


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
