"""Roles as processes of their own, fed with what is no request, or with more than they take: they stay small, say little, and go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2

from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import controller_pb2 as c, frontend_pb2 as f, hsc_pb2 as h, store_consumer_pb2 as s, task_pb2 as t
from atf.rpc.channel import open_channel
from atf.rpc.failure import MAX_MESSAGE_BYTES
from atf.rpc.stubs import FrontendStub
from atf.runtime import SystemRuntime
from atf.task import MAX_BATCH
from tests import asking
from tests.torture import wire
from tests.torture.texts import TEXTS
from tests.torture.world import INVALID, NOT_FOUND, OK, TOO_LARGE, schedule

from .roles import end, line
from .test_controller import start
from .test_guard import call, guarded
from .test_services import register

UNKNOWN = grpc.StatusCode.UNKNOWN
REFUSED = grpc.StatusCode.FAILED_PRECONDITION
SECRET = "5ecret"
ROUNDS = 4
MAX_PEAK_MIB = 280
"""What a process may ever take. It starts with less than 80 and is sent about 100 in each round: it can't keep a part of it."""


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


class Torturer:
    """Sends bytes to methods, and knows which answers are in order."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def send(self, path: str, data: bytes, *codes: grpc.StatusCode, zipped: bool = False) -> None:
        """`path` is Service/Method, with the package where that is not ATF's."""
        how = grpc.Compression.Gzip if zipped else grpc.Compression.NoCompression
        full = path if "." in path else f"atf.v1.{path}"
        try:
            await self._channel.unary_unary(f"/{full}")(data, timeout=20, compression=how)
            code = OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
        assert code in codes, (path, code, data[:50])


async def full_round(torturer: Torturer, path: str, request: Any) -> None:
    """Messages as large as any, larger ones, and broken ones."""
    unknown = wire.tag(1_000, wire.BYTES)
    full = unknown + wire.varint(MAX_MESSAGE_BYTES - 20) + SECRET.encode() * (MAX_MESSAGE_BYTES // len(SECRET))
    await asyncio.gather(*(torturer.send(path, full[:-9], INVALID) for _ in range(8)))
    await asyncio.gather(*(torturer.send(path, full + full, TOO_LARGE) for _ in range(4)))
    await torturer.send(path, full * 8, TOO_LARGE, zipped=True)
    await asyncio.gather(*(torturer.send(path, each.data, INVALID) for each in wire.broken(request)))


async def frontend_round(torturer: Torturer) -> None:
    await full_round(torturer, "Frontend/Schedule", f.ScheduleRequest.DESCRIPTOR)
    many = [schedule(text, payload=SECRET.encode() * 40_000).SerializeToString() for text in TEXTS.values() if text]
    await asyncio.gather(*(torturer.send("Frontend/Schedule", each, INVALID) for each in many))
    ids = f.GetTaskRequest(id="\U0001f600" * 1_000_000).SerializeToString()
    await asyncio.gather(*(torturer.send("Frontend/GetTask", ids, INVALID) for _ in range(4)))


async def hsc_round(torturer: Torturer) -> None:
    held = [h.HeldClaim(progress=SECRET * 100, started=True)] * 4_000
    beat = h.HeartbeatRequest(executor_id="e", claims=held).SerializeToString()
    await asyncio.gather(*(torturer.send("HSC/Heartbeat", beat, OK) for _ in range(4)))
    many = h.HandBackRequest(executor_id="e", nonces=["x"] * 1_000_000).SerializeToString()
    await asyncio.gather(*(torturer.send("HSC/HandBack", many, INVALID) for _ in range(4)))
    long = h.NextClaimsRequest(executor_id=SECRET * 800_000).SerializeToString()
    await asyncio.gather(*(torturer.send("HSC/NextClaims", long, INVALID) for _ in range(4)))
    broken = wire.broken(h.SetResultsRequest.DESCRIPTOR)
    await asyncio.gather(*(torturer.send("HSC/SetResults", each.data, INVALID) for each in broken))


def asks(**fields: Any) -> bytes:
    """A call for work that is in order, but for these fields."""
    said = {
        "executor_id": "e",
        "nonce": "n",
        "max_tasks": 1,
        "lambdas": ["photos/thumbnail"],
        "signatures": ["d"],
        "boot_id": SystemRuntime().boot_id(),
        "heartbeat_timeout_us": 16_000_000,
    }
    return c.NextWorkRequest(**{**said, **fields}).SerializeToString()


async def controller_round(torturer: Torturer) -> None:
    many = asks(lambdas=["x/y"] * 600_000)
    await asyncio.gather(*(torturer.send("Controller/NextWork", many, INVALID) for _ in range(8)))
    for long in (asks(executor_id=SECRET * 500_000), asks(signatures=[SECRET] * 400_000), asks(stream="a" * 3_000_000)):
        await asyncio.gather(*(torturer.send("Controller/NextWork", long, INVALID) for _ in range(4)))
    await asyncio.gather(*(torturer.send("Controller/NextWork", many + many, TOO_LARGE) for _ in range(4)))
    others = asks(boot_id=SECRET * 500_000)
    await asyncio.gather(*(torturer.send("Controller/NextWork", others, REFUSED) for _ in range(4)))
    broken = wire.broken(c.NextWorkRequest.DESCRIPTOR)
    await asyncio.gather(*(torturer.send("Controller/NextWork", each.data, INVALID) for each in broken))
    once = (asks(executor_id=uuid.uuid4().hex) for _ in range(200))  # executors that never come again
    await asyncio.gather(*(torturer.send("Controller/NextWork", each, OK) for each in once))


async def store_consumer_round(torturer: Torturer) -> None:
    await full_round(torturer, "StoreConsumer/Poll", s.PollRequest.DESCRIPTOR)
    for numbers in ([7] * 2_200_000, range(100_000)) * 2:
        await torturer.send("StoreConsumer/Poll", s.PollRequest(partitions=numbers).SerializeToString(), INVALID)
    health = "grpc.health.v1.Health/Check"
    long = health_pb2.HealthCheckRequest(service=SECRET * 600_000).SerializeToString()
    await asyncio.gather(*(torturer.send(health, long, NOT_FOUND) for _ in range(2)))
    broken = wire.broken(health_pb2.HealthCheckRequest.DESCRIPTOR)
    await asyncio.gather(*(torturer.send(health, each.data, UNKNOWN) for each in broken))  # gRPC's own service says so


@contextlib.asynccontextmanager
async def torturer_of(address: str) -> AsyncIterator[Torturer]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        yield Torturer(channel)


Round = Callable[[Torturer], Awaitable[None]]
ROLES: dict[str, tuple[Round, list[str]]] = {
    "frontend": (frontend_round, []),
    "controller": (controller_round, ["--hsc", "127.0.0.1:1"]),  # nobody is there, and nobody is asked
    "hsc": (hsc_round, []),
    "store-consumer": (store_consumer_round, ["--poll-on-request"]),
}
GOOD: dict[str, tuple[str, bytes]] = {
    "controller": ("Controller/NextWork", asks()),
    "hsc": ("HSC/NextClaims", asking.asks().SerializeToString()),
    "store-consumer": ("StoreConsumer/Poll", b""),
}
"""A call that is in order."""


@contextlib.asynccontextmanager
async def running(role: str, url: str, *arguments: str) -> AsyncIterator[tuple[Process, str]]:
    process = await start(role, url, *arguments)
    try:
        yield process, (await line(process, "ready"))["address"]
    finally:
        if process.returncode is None:
            process.kill()
        await end(process)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("role", ROLES)
async def test_a_role_under_torture_stays_small_says_little_and_goes_on(role: str, tmp_path: Path) -> None:
    round_, arguments = ROLES[role]
    data = DataDir(tmp_path / "data")
    data.lock()
    async with (
        EmbeddedStore(find_binary(), data) as store,
        running(role, store.url, *arguments) as (process, address),
    ):
        async with torturer_of(address) as torturer:
            for _ in range(ROUNDS):
                await round_(torturer)
            assert peak_mib(process.pid) < MAX_PEAK_MIB
            if role == "frontend":
                stub = FrontendStub(open_channel(address))
                await register(stub)
                assert (await stub.schedule(schedule("a", payload=b"1"))).id
                await stub.channel.close()
            else:
                await torturer.send(*GOOD[role], OK)
        process.terminate()
        assert process.stderr is not None
        text = await process.stderr.read()
        assert await end(process) == 0
        assert SECRET.encode() not in text
        assert b"Traceback" not in text
        assert len(text.splitlines()) < 20
    data.release()


FED: Final = 30
"""Answers of nearly 4 MiB: 120 in all."""
MAX_FED_MIB = 180
"""What a worker may ever take, which starts with about 80 and holds one of these answers, its results and what is left of both."""


async def test_a_worker_that_is_fed_with_large_answers_stays_small_and_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Large payloads come back as large results; answers that are too large, and specs that are none, are one task's or one call's matter."""
    payload = json.dumps({"word": SECRET * 2_600})
    async with guarded("--log-format=json") as world:
        pid, hsc, fed = (await world.event())["pid"], world.hsc, list[t.Claim]()
        for number in range(FED):
            claims = [call(f"0-{number}-{each}", "fine", payload) for each in range(MAX_BATCH)]
            claims[0].spec = b"\xff" * (15 << 10)
            if number % 10 == 0:
                world.controller.give(*claims, *claims)  # never arrives
            world.controller.give(*claims)
            fed.extend(claims)
            await world.until(lambda: len(hsc.results) == len(fed))
        assert Counter(each.outcome for each in hsc.results) == {
            t.SUCCEEDED: FED * (MAX_BATCH - 1),
            t.FAILED_FATAL: FED,
        }
        assert peak_mib(pid) < MAX_FED_MIB
    text = capsys.readouterr().out
    assert SECRET not in text
    assert "Traceback" not in text
    assert len(text.splitlines()) < 5 * FED
