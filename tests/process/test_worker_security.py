"""Workers where the installation has tokens: what they are given, and what the code of users gets at."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from atf.auth import secrets
from atf.auth.token_record import TokenRecord
from atf.config.settings import StoreSettings, Timing
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.task import US

from .roles import end, line_of

ROOT = Path(__file__).parent.parent.parent
LIFE_S = 3
TOKEN = re.compile(r"atfx?_[a-z2-7]{10}_")
WITHOUT_CAPABILITIES = """
import ctypes, os, sys
for each in range(41 if os.geteuid() == 0 else 0):
    ctypes.CDLL(None).prctl(24, each, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, "-P", "-m", "atf.cli", *sys.argv[1:]])
"""
"""Root looks into every process; a user without capabilities, as what is started from here is, does not."""


class Cluster(NamedTuple):
    url: str
    address: str
    admin: str
    worker: str


async def token(store: Store, *verbs: str, scopes: tuple[str, ...]) -> str:
    token_id = secrets.new_id(os.urandom)
    found = secrets.new_token(token_id, os.urandom)
    record = TokenRecord(id=token_id, verbs=verbs, scopes=scopes, digest=secrets.digest_of(found))
    await store.set_token(token_id, msgspec.json.encode(record))
    return found


async def start(*words: str, **env: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", WITHOUT_CAPABILITIES, *words, "--log-format", "json"),
        stdin=DEVNULL,
        stderr=PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )


@contextlib.asynccontextmanager
async def running(*words: str, role: str, **env: str) -> AsyncIterator[tuple[Process, dict[str, Any]]]:
    process = await start(*words, **env)
    try:
        yield process, await line_of(process, role, "ready")
    finally:
        if process.returncode is None:
            process.terminate()
        await end(process)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    data = DataDir(tmp_path / "data")
    data.lock()
    async with EmbeddedStore(find_binary(), data) as embedded:
        store = await Store.open(StoreSettings(redis_url=embedded.url, partitions=2), Timing(), SystemRuntime())
        admin = await token(store, "admin", scopes=("*",))
        worker = await token(store, "work", "schedule", "read", "read_payload", scopes=("photos",))
        await store.close()
        words = ["--redis-url", embedded.url, "--partitions", "2", "--auth", "token", "--ui-listen", "none"]
        life = ["--credential-life", str(LIFE_S), "--stop-delay", "0"]
        async with running("server", "--listen", "127.0.0.1:0", *words, *life, role="server") as (_, ready):
            yield Cluster(embedded.url, ready["address"], admin, worker)


def worker_words(cluster: Cluster, app: str = "tests.process.prying:app") -> list[str]:
    return ["worker", app, "--server", cluster.address, "--listen", "127.0.0.1:0", "--threads", "1"]


class Client:
    """Schedules as somebody who may do everything."""

    def __init__(self, cluster: Cluster) -> None:
        self.frontend = FrontendStub(open_channel(cluster.address, security=Security(token=cluster.admin)))

    async def schedule(self, name: str, **arguments: object) -> str:
        spec = t.TaskSpec(payload=json.dumps(arguments).encode())
        setattr(spec, "lambda", name)
        reply = await self.frontend.schedule(
            f.ScheduleRequest(id=f"{name.partition('/')[2]}-{os.urandom(4).hex()}", spec=spec)
        )
        return reply.id

    async def result(self, task_id: str) -> Any:
        await self.frontend.wait_tasks(f.WaitTasksRequest(ids=[task_id], timeout_us=15 * US))
        task = await self.frontend.get_task(f.GetTaskRequest(id=task_id))
        assert task.status == t.SUCCESS, task
        return json.loads(task.result)


async def test_workers_keep_to_their_own(cluster: Cluster, tmp_path: Path) -> None:
    """In one story, since its processes take long to start."""
    await code_of_users_gets_at_nothing_but_its_own(cluster)
    await asyncio.gather(
        a_worker_is_not_let_in_for_lambdas_of_others(cluster, tmp_path),
        an_executor_started_by_hand_shows_the_token_of_its_controller(cluster),
    )


async def code_of_users_gets_at_nothing_but_its_own(cluster: Cluster) -> None:
    env = {"ATF_TOKEN": cluster.worker}
    async with running(*worker_words(cluster), "--executors", "2", role="controller", **env):
        client = Client(cluster)
        held = await client.schedule("photos/hold", seconds=LIFE_S + 1.5)
        while not (task := await client.frontend.get_task(f.GetTaskRequest(id=held))).owner:
            await asyncio.sleep(0.05)
        listed = await client.frontend.list_lambdas(f.ListLambdasRequest(page_size=100))
        assert "atf/command" not in {each.spec.name for each in listed.lambdas}, "its token does not name it"
        found = await client.result(await client.schedule("photos/read_token"))
        assert {each: said for each, said in found.items() if TOKEN.search(said)} == {}
        assert found["neighbours' fork servers"] != "0"
        whose = ("guard", "controller", "neighbour", "fork server")
        hidden = [f"{who} {what}" for who in whose for what in ("environ", "mem", "fd/0")]
        assert {found[each] for each in hidden} == {"PermissionError"}

        by_credential, by_nothing = await client.result(await client.schedule("photos/claim"))
        assert by_credential.startswith("PermissionDenied: code in executor ")
        assert "its executor alone asks for tasks" in by_credential
        assert by_nothing.startswith("Unauthenticated: no token was sent")

        ended = await client.schedule("photos/end_neighbour", task_id=held, executor_id=task.owner)
        others, own, nobody = await client.result(ended)
        assert "no SetResults" in others
        assert "no SetResults" in own
        assert nobody.startswith("Unauthenticated")
        asked, entered, beat = await client.result(await client.schedule("photos/work_from_apart"))
        assert asked.startswith("Unauthenticated: this controller does not know who asks")
        assert entered.startswith("Unauthenticated: what this executor shows is not known here")
        assert "no Heartbeat: code may schedule and read" in beat

        for name in ("schedule_more", "schedule_from_apart"):
            more = await client.result(await client.schedule(f"photos/{name}"))
            assert await client.result(more)
        assert await client.result(held)  # its leases were renewed by credentials that follow one another
        assert (await client.frontend.get_task(f.GetTaskRequest(id=held))).losses == 0


async def an_executor_started_by_hand_shows_the_token_of_its_controller(cluster: Cluster) -> None:
    env = {"ATF_TOKEN": cluster.worker}
    nobody = ["controller", "--executors", "0", "--listen", "127.0.0.1:0", "--hsc", cluster.address]
    async with running(*nobody, role="controller", **env) as (_, ready):
        words = ["executor", "tests.process.prying:app", "--controller", ready["address"], "--hsc", cluster.address]
        words += ["--frontend", cluster.address, "--threads", "1"]
        stranger = await start(*words, ATF_TOKEN=cluster.admin)
        async with running(*words, role="executor", **env):
            client = Client(cluster)
            found = await client.result(await client.schedule("photos/read_token"))
            assert {each: said for each, said in found.items() if TOKEN.search(said)} == {}
            assert found["guard environ"] == "PermissionError"
        said = (await stranger.communicate())[1].decode()
        assert stranger.returncode == 4
        assert "does not let this executor in: what this executor shows is not known here" in said


async def a_worker_is_not_let_in_for_lambdas_of_others(cluster: Cluster, tmp_path: Path) -> None:
    """Its executor can't even make them known, and says why."""
    (tmp_path / "letters.py").write_text("import atf\n\napp = atf.App('mail')\n\n@app.task\ndef send() -> None: ...\n")
    words = [*worker_words(cluster, "letters:app"), "--start-retries", "0"]
    process = await start(*words, ATF_TOKEN=cluster.worker, PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}")
    said = (await process.communicate())[1].decode()
    assert process.returncode == 4
    assert "no work for mail/send" in said
    assert not TOKEN.search(said)
