"""`make revocation`: a token is revoked, and every place that it opened is asked until it is refused there; the bar is 30 s.

Frontend, HSC, worker and pages are processes. Asked are a call, a worker's ask for claims, the credential of an executor, a session of the pages,
Dapr's HTTP API and metrics; and a worker gets tasks of somebody else, until it is given none any more.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from atf.auth import secrets
from atf.auth.grants import Verb
from atf.errors import AtfError, Unauthenticated
from atf.rpc import frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub, HSCStub
from atf.task import US
from proof.benchmarks.stores import LoopbackStore
from proof.chaos import frame

from .processes import ROOT, running
from .secured import put_token

BAR_S: Final = 30.0
QUICK: Final = """
from atf.auth import caller, known_tokens
known_tokens.READ_EVERY_S, caller.MOST_WAIT_S = 0.3, 1.0
"""
"""Run first by processes, which then learn 30 times as fast what was revoked: for a test."""
_ASK_EVERY_S: Final = 0.2
_LAMBDA: Final = "photos/echo"
_RESULTS: Final = ROOT / "proof" / "results" / "rotation"

Door = Callable[[], Awaitable[bool]]
"""Whether the token, or what was got by it, still opens something."""


class Places(NamedTuple):
    """Where the processes listen."""

    frontend: str
    metrics: str
    dapr: str
    hsc: str
    pages: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="make revocation", description="Revokes a token, and asks everywhere.")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    given = parser.parse_args()
    found = asyncio.run(_run())
    late = {name: seconds for name, seconds in found.items() if seconds > BAR_S}
    result = {"status": f"failed: {late}" if late else "ok", "bar_s": BAR_S, "refused_after_s": found}
    given.results.mkdir(parents=True, exist_ok=True)
    path = given.results / f"{datetime.now(UTC):%Y-%m-%d}-revocation-{frame.code()}.json"
    path.write_text(json.dumps(result | {"code": frame.code(), "load": round(os.getloadavg()[0], 1)}, indent=1) + "\n")
    print(path.read_text(), path)
    return 1 if late else 0


async def _run() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="atf-revocation-") as folder:
        store = LoopbackStore(Path(folder) / "store", cluster=False)
        await store.start()
        try:
            return await revoked_everywhere(store.url, BAR_S + 5)
        finally:
            await store.stop(0)


async def revoked_everywhere(redis_url: str, seconds: float, first: str = "") -> dict[str, float]:
    """By place: seconds after the revocation at which the token last opened it.

    Args:
        redis_url: of an empty store.
        seconds: how long each place is asked.
        first: what each process runs first.
    """
    admin, token = (secrets.new_token(secrets.new_id(os.urandom), os.urandom) for _ in range(2))
    await put_token(redis_url, admin, Verb.ADMIN)
    await put_token(redis_url, token, *(set(Verb) - {Verb.ADMIN}))
    async with _places(redis_url, token, first) as places, contextlib.AsyncExitStack() as open_:
        by_admin = FrontendStub(await _channel(open_, places.frontend, admin))
        doors = await _doors(open_, places, token)
        probes = _Probes(by_admin)
        assert all([await door() for door in doors.values()]), "the token opens each of them before"
        await probes.schedule()
        await probes.first_ended()
        await by_admin.revoke_token(f.RevokeTokenRequest(id=token.split("_")[1]))
        began = time.monotonic()
        found = dict.fromkeys(doors, 0.0)
        while (since := time.monotonic() - began) < seconds:
            await probes.schedule()
            for name, opens in zip(doors, await asyncio.gather(*(door() for door in doors.values())), strict=True):
                if opens:
                    found[name] = round(since, 1)
            await asyncio.sleep(_ASK_EVERY_S)
        return {**found, "tasks for its worker": await probes.last_ended(began)}


@contextlib.asynccontextmanager
async def _places(redis_url: str, token: str, first: str) -> AsyncIterator[Places]:
    any_port, guarded = "127.0.0.1:0", ["--auth", "token"]
    env = {"ATF_REDIS_URL": redis_url, "ATF_PARTITIONS": "1"}
    frontend_words = ["frontend", "--metrics-listen", any_port, "--dapr-http", any_port, "--dapr-app-id", "orders"]
    async with contextlib.AsyncExitStack() as open_:
        frontend, hsc = await asyncio.gather(
            *(
                open_.enter_async_context(running(*words, "--listen", any_port, *guarded, first=first, env=env))
                for words in (frontend_words, ["hsc", "--metrics-listen", "none", "--stop-delay", "0"])
            )
        )
        called = ["--frontend", frontend["address"], "--listen", any_port]
        worker = ["worker", "proof.rotation.echo:app", "--hsc", hsc["address"], "--metrics-listen", "none"]
        pages: dict[str, Any]
        pages, _ = await asyncio.gather(
            open_.enter_async_context(running("ui", *called, *guarded, first=first)),
            open_.enter_async_context(
                running(*worker, *called, "--executors", "1", first=first, kill=True, env={"ATF_TOKEN": token})
            ),
        )
        yield Places(frontend["address"], frontend["metrics"], frontend["dapr_http"], hsc["address"], pages["address"])


async def _channel(open_: contextlib.AsyncExitStack, address: str, token: str) -> Any:
    channel = open_channel(address, security=Security(token=token))
    open_.push_async_callback(channel.close)
    return channel


async def _doors(open_: contextlib.AsyncExitStack, places: Places, token: str) -> dict[str, Door]:
    frontend = FrontendStub(await _channel(open_, places.frontend, token))
    hsc = HSCStub(await _channel(open_, places.hsc, token))
    credential = await hsc.issue_credential(h.IssueCredentialRequest(executor_id="one"))
    executor = HSCStub(await _channel(open_, places.hsc, credential.secret))
    session = await open_.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)))
    await _sign_in(session, places.pages, token)
    bearer = {"Authorization": f"Bearer {token}"}
    claims = h.NextClaimsRequest(executor_id="one")  # it lacks the most, which is said to whoever is let in
    return {
        "a call": lambda: _let_in(frontend.list_tasks(f.ListTasksRequest(page_size=1))),
        "a worker's ask": lambda: _let_in(hsc.next_claims(claims, timeout=5)),
        "a new credential": lambda: _let_in(hsc.issue_credential(h.IssueCredentialRequest(executor_id="one"))),
        "an executor's credential": lambda: _let_in(executor.heartbeat(h.HeartbeatRequest(executor_id="one"))),
        "a session of the pages": lambda: _answers(session, f"http://{places.pages}/tasks", {}, 200),
        "Dapr's HTTP API": lambda: _answers(session, f"http://{places.dapr}/v1.0/jobs/none", bearer, 404),
        "metrics": lambda: _answers(session, f"http://{places.metrics}/metrics", bearer, 200),
    }


async def _let_in(call: Awaitable[object]) -> bool:
    try:
        await call
    except Unauthenticated:
        return False
    except AtfError:
        return True
    return True


async def _answers(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], status: int) -> bool:
    async with session.get(url, headers=headers, allow_redirects=False) as answer:
        assert answer.status in {status, 401, 303}, await answer.text()
        return answer.status == status


async def _sign_in(session: aiohttp.ClientSession, pages: str, token: str) -> None:
    async with session.get(f"http://{pages}/login") as answer:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', await answer.text())
    assert found is not None
    form = {"csrf": found[1], "token": token}
    async with session.post(f"http://{pages}/login", data=form, headers={"Origin": f"http://{pages}"}) as answer:
        assert "Signed in" in await answer.text()


class _Probes:
    """Tasks of somebody else that the worker could run, one each time."""

    def __init__(self, frontend: FrontendStub) -> None:
        self._frontend = frontend
        self._scheduled: dict[str, float] = {}

    async def schedule(self) -> None:
        spec = t.TaskSpec(payload=b"{}")
        setattr(spec, "lambda", _LAMBDA)
        reply = await self._frontend.schedule(f.ScheduleRequest(id=f"probe-{len(self._scheduled)}", spec=spec))
        self._scheduled[reply.id] = time.monotonic()

    async def first_ended(self) -> None:
        """Waits until the worker has run the first: it has asked, and was given tasks."""
        (first,) = self._scheduled
        await self._frontend.wait_tasks(f.WaitTasksRequest(ids=[first], timeout_us=20 * US))
        assert await self._ended(first), await self._frontend.get_task(f.GetTaskRequest(id=first))

    async def last_ended(self, began: float) -> float:
        """Seconds after `began` at which the last was scheduled that the worker has run; not those of the last second, which may be under way."""
        done = [each for each in self._scheduled if await self._ended(each)]
        assert len(done) < len(self._scheduled), "it is given tasks as before"
        return max(0.0, round(max(self._scheduled[each] for each in done) - began, 1))

    async def _ended(self, task_id: str) -> bool:
        return (await self._frontend.get_task(f.GetTaskRequest(id=task_id))).status == t.SUCCESS


if __name__ == "__main__":
    sys.exit(main())
