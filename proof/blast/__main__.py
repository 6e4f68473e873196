"""`make blast`: takes each stolen secret in turn and tries every deed with it on a small cluster; fails where one can do other than the table says."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from atf import AsyncClient
from atf.auth.dev_certificates import Pair
from atf.client.own_frontend import open_frontend
from atf.config.settings import StoreSettings, Timing
from atf.controller.entrance import Entrance
from atf.rpc import controller_pb2 as c, frontend_pb2 as f, task_pb2 as t
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub, HSCStub
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.task import US
from proof.chaos import frame

from .cluster import SUBJECT, SecretiveCluster, running, write
from .expected import DEEDS, EXPECTED, SECRETS, USER
from .lambdas import PHRASE
from .thief import BOTH, TRIES, Spoils, Thief, tried

_ROOT: Final = Path(__file__).parents[2]
_RESULTS: Final = _ROOT / "proof" / "results" / "blast"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make blast", description="Tries what each stolen secret is good for.")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    return asyncio.run(_run(parser.parse_args()))


async def _run(given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="atf-blast-") as folder:
        async with running(Path(folder)) as cluster:
            found = await try_all(cluster)
    wrong = differences(found)
    for what, deeds in found.items():
        print(f"{what}: {', '.join(sorted(name for name, could in deeds.items() if could)) or 'nothing'}")
    print("\n".join(wrong) or f"{sum(map(len, found.values()))} cells, all as the table says")
    print(_write(given.results, found, wrong))
    return 1 if wrong else 0


def differences(found: dict[str, dict[str, bool]]) -> list[str]:
    """Where what was found is not what the table says."""
    return [
        f"{what}: {deed}: {'can' if could else 'can not'}, and the table says the other"
        for what, deeds in found.items()
        for deed, could in deeds.items()
        if could is not (deed in EXPECTED[what])
    ]


async def try_all(cluster: SecretiveCluster) -> dict[str, dict[str, bool]]:
    """By secret and deed, whether it could be done."""
    scene = await _scene(cluster)
    found: dict[str, dict[str, bool]] = {}
    for what in SECRETS:
        async with _thief(what, cluster, scene) as thief:
            found[what] = {
                f"{name}: {whose}" if whose else name: await tried(TRIES[name], thief, scene, whose)
                for name, by_namespace in DEEDS.items()
                for whose in (BOTH if by_namespace else ("",))
            }
    return found


async def _scene(cluster: SecretiveCluster) -> Spoils:
    address = cluster.address("frontend")
    security = Security(token=cluster.tokens["admin"], tls_ca=cluster.ca)
    admin = FrontendStub(open_channel(address, security=security))
    await admin.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=f"{each}/idle") for each in BOTH]))
    async with AsyncClient(
        address, token=cluster.tokens["client"], tls_ca=cluster.ca, codec_keys=cluster.codec_keys
    ) as client:
        handle = await client.schedule("own/idle", {"word": PHRASE}, delay=86_400)
    sealed = await admin.get_task(f.GetTaskRequest(id=handle.id, with_spec=True))
    held = {each: await _scheduled(admin, f"{each}/hold", b'{"seconds": 600}') for each in BOTH}
    owner = ""
    for each in held.values():
        while not (task := await admin.get_task(f.GetTaskRequest(id=each))).progress:
            await asyncio.sleep(0.05)
        owner = task.owner
    scene = Spoils(
        admin, cluster.store, cluster.ca, cluster.address("hsc"), address,
        (await admin.list_hosts(f.ListHostsRequest())).hosts[0].name, owner,
        cluster.tokens["other worker"].split("_")[1], sealed, held=held,
    )  # fmt: skip
    for each in BOTH:
        scene.tasks[each] = await scene.waiting(each)
        scene.said[each] = await _scheduled(admin, f"{each}/say", json.dumps({"word": PHRASE}).encode())
    await admin.wait_tasks(f.WaitTasksRequest(ids=list(scene.said.values()), timeout_us=20 * US))
    return scene


async def _scheduled(admin: Any, name: str, payload: bytes) -> str:
    spec = t.TaskSpec(payload=payload)
    setattr(spec, "lambda", name)
    return str((await admin.schedule(f.ScheduleRequest(spec=spec))).id)


@asynccontextmanager
async def _thief(what: str, cluster: SecretiveCluster, scene: Spoils) -> AsyncIterator[Thief]:
    """Who has that secret, and nothing else."""
    if what.startswith(USER):
        url = cluster.url(what.removeprefix(USER))
        channel: Any = open_frontend(url, SystemRuntime(), operator=True)
        store = await Store.open(StoreSettings(redis_url=url), Timing(), SystemRuntime())
        hsc = open_channel(scene.hsc_address, security=Security(tls_ca=cluster.ca))
        try:
            yield Thief(what, what, FrontendStub(channel), HSCStub(hsc), store)
        finally:
            await store.close()
            await channel.close()
            await hsc.close()
        return
    shown, more = await _stolen(what, cluster, scene)
    security, address = Security(token=shown, tls_ca=cluster.ca), scene.frontend_address
    if what == "CA key":  # whoever has it signs a certificate of somebody who may do everything
        pair = cluster.authority.client(SUBJECT)
        path = [write(cluster.folder / f"forged{end}.pem", each) for end, each in zip(("", "-key"), pair, strict=True)]
        security, address = (
            Security(tls_ca=cluster.ca, tls_cert=path[0], tls_key=path[1]),
            cluster.address("by certificate"),
        )
    frontend, hsc = open_channel(address, security=security), open_channel(scene.hsc_address, security=security)
    try:
        yield Thief(what, shown or what, FrontendStub(frontend), HSCStub(hsc), **more)
    finally:
        await frontend.close()
        await hsc.close()


async def _stolen(what: str, cluster: SecretiveCluster, scene: Spoils) -> tuple[str, dict[str, Any]]:
    """What is shown to the roles, and what else comes with a secret."""
    if what.endswith(" token"):
        return cluster.tokens[what.removesuffix(" token")], {}
    if what == "executor credential":
        task_id = await _scheduled(scene.admin, "own/show", b"{}")
        await scene.admin.wait_tasks(f.WaitTasksRequest(ids=[task_id], timeout_us=20 * US))
        async with AsyncClient(
            scene.frontend_address, token=cluster.tokens["admin"], tls_ca=cluster.ca, codec_keys=cluster.codec_keys
        ) as client:
            return str(await client.handle(task_id).result_async(timeout=20)), {}
    if what == "Enter secret":
        return await _entered(cluster), {}
    if what == "page session cookie":
        pages = f"http://{cluster.address('ui')}"
        return "", {"cookie": await _signed_in(pages, cluster.tokens["client"]), "pages": pages}
    pairs = {
        "CA key": cluster.authority.server,
        "server's TLS key": lambda: _pair(cluster.folder, "server"),
    }
    return "", {"pair": pairs[what]()} if what in pairs else {"codec_keys": cluster.codec_keys}


async def _entered(cluster: SecretiveCluster) -> str:
    """The credential that a secret is exchanged for, by the entrance that a controller has, over the real HSC."""
    own = Security(token=cluster.tokens["worker"], tls_ca=cluster.ca)
    channel = open_channel(cluster.address("hsc"), security=own)
    try:
        entrance = Entrance(HSCStub(channel), own, SystemRuntime())
        asked = c.EnterRequest(executor_id=f"stolen-{os.urandom(4).hex()}", secret=entrance.new_secret())
        return (await entrance.enter(asked)).secret
    finally:
        await channel.close()


async def _signed_in(pages: str, token: str) -> str:
    """The session's cookie, once a browser has shown a token."""
    cookies = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=cookies) as session:
        async with session.get(f"{pages}/login") as answer:
            found = re.search(r'name="csrf" value="([^"]+)"', await answer.text())
        assert found is not None
        form = {"token": token, "csrf": found[1], "next": "/"}
        async with session.post(
            f"{pages}/login", data=form, headers={"Origin": pages}, allow_redirects=False
        ) as answer:
            return answer.cookies["atf_session"].value


def _pair(folder: Path, name: str) -> Pair:
    return Pair((folder / f"{name}.pem").read_bytes(), (folder / f"{name}-key.pem").read_bytes())


def _write(folder: Path, found: dict[str, dict[str, bool]], wrong: list[str]) -> Path:
    result = {
        "status": f"failed: {len(wrong)} cells" if wrong else "ok",
        "cells": sum(map(len, found.values())),
        "can": {what: sorted(name for name, could in deeds.items() if could) for what, deeds in found.items()},
        "wrong": wrong,
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "code": frame.code(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y-%m-%d}-blast-{frame.code()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
