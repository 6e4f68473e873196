"""A frontend, a controller and an HSC as processes of their own, fed with what is no request: they stay small, say little, and go on."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import controller_pb2 as c
from atf.rpc import frontend_pb2 as f
from atf.rpc import hsc_pb2 as h
from atf.rpc.channel import FrontendStub, open_channel
from atf.rpc.failure import MAX_MESSAGE_BYTES
from atf.runtime import SystemRuntime
from tests.torture import wire
from tests.torture.texts import TEXTS
from tests.torture.world import INVALID, OK, TOO_LARGE, schedule

from .roles import end, line
from .test_controller import start
from .test_services import register

REFUSED = grpc.StatusCode.FAILED_PRECONDITION
SECRET = "5ecret"
ROUNDS = 4
MAX_PEAK_MIB = 280
"""What a process may ever take. It starts with less than 80 and is sent about 100 in each round: it can't keep a part of it."""


def peak_mib(process: Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


class Torturer:
    """Sends bytes to methods, and knows which answers are in order."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def send(self, path: str, data: bytes, *codes: grpc.StatusCode, zipped: bool = False) -> None:
        how = grpc.Compression.Gzip if zipped else grpc.Compression.NoCompression
        try:
            await self._channel.unary_unary(f"/atf.v1.{path}")(data, timeout=20, compression=how)
            code = OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
        assert code in codes, (path, code, data[:50])


async def frontend_round(torturer: Torturer) -> None:
    unknown = wire.tag(1_000, wire.BYTES)
    full = unknown + wire.varint(MAX_MESSAGE_BYTES - 20) + SECRET.encode() * (MAX_MESSAGE_BYTES // len(SECRET))
    request = f.ScheduleRequest.DESCRIPTOR
    await asyncio.gather(*(torturer.send("Frontend/Schedule", full[:-9], INVALID) for _ in range(8)))
    await asyncio.gather(*(torturer.send("Frontend/Schedule", full + full, TOO_LARGE) for _ in range(4)))
    await torturer.send("Frontend/Schedule", full * 8, TOO_LARGE, zipped=True)
    broken = [torturer.send("Frontend/Schedule", each.data, INVALID) for each in wire.broken(request)]
    await asyncio.gather(*broken)
    many = [schedule(text, payload=SECRET.encode() * 40_000).SerializeToString() for text in TEXTS.values() if text]
    await asyncio.gather(*(torturer.send("Frontend/Schedule", each, INVALID) for each in many))
    ids = f.GetTaskRequest(id="\U0001f600" * 1_000_000).SerializeToString()
    await asyncio.gather(*(torturer.send("Frontend/GetTask", ids, INVALID) for _ in range(4)))


async def hsc_round(torturer: Torturer) -> None:
    held = [h.HeldClaim(progress=SECRET * 100, started=True)] * 4_000
    beat = h.HeartbeatRequest(executor_id="e", claims=held).SerializeToString()
    await asyncio.gather(*(torturer.send("HSC/Heartbeat", beat, OK) for _ in range(4)))
    many = h.HandBackRequest(executor_id="e", unclaimed=["x"] * 1_000_000).SerializeToString()
    await asyncio.gather(*(torturer.send("HSC/HandBack", many, INVALID) for _ in range(4)))
    long = h.ClaimTasksRequest(executor_id=SECRET * 800_000).SerializeToString()
    await asyncio.gather(*(torturer.send("HSC/ClaimTasks", long, INVALID) for _ in range(4)))
    broken = wire.broken(h.SetResultsRequest.DESCRIPTOR)
    await asyncio.gather(*(torturer.send("HSC/SetResults", each.data, INVALID) for each in broken))


def asks(**fields: Any) -> bytes:
    """A call for work that is in order, but for these fields."""
    said = {"executor_id": "e", "max_tasks": 1, "lambdas": ["photos/thumbnail"], "boot_id": SystemRuntime().boot_id()}
    return c.NextWorkRequest(**{**said, **fields}).SerializeToString()


async def controller_round(torturer: Torturer) -> None:
    many = asks(lambdas=["x/y"] * 600_000)
    await asyncio.gather(*(torturer.send("Controller/NextWork", many, INVALID) for _ in range(8)))
    for long in (asks(executor_id=SECRET * 500_000), asks(features=[SECRET] * 400_000), asks(lane="a" * 3_000_000)):
        await asyncio.gather(*(torturer.send("Controller/NextWork", long, INVALID) for _ in range(4)))
    await asyncio.gather(*(torturer.send("Controller/NextWork", many + many, TOO_LARGE) for _ in range(4)))
    others = asks(boot_id=SECRET * 500_000)
    await asyncio.gather(*(torturer.send("Controller/NextWork", others, REFUSED) for _ in range(4)))
    broken = wire.broken(c.NextWorkRequest.DESCRIPTOR)
    await asyncio.gather(*(torturer.send("Controller/NextWork", each.data, INVALID) for each in broken))
    once = (asks(executor_id=uuid.uuid4().hex) for _ in range(200))  # executors that never come again
    await asyncio.gather(*(torturer.send("Controller/NextWork", each, OK) for each in once))


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
}


@contextlib.asynccontextmanager
async def running(role: str, url: str, *arguments: str) -> AsyncIterator[tuple[Process, str]]:
    process = await start(role, url, *arguments)
    try:
        yield process, (await line(process, "ready"))["address"]
    finally:
        if process.returncode is None:
            process.kill()
        await end(process)


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
            assert peak_mib(process) < MAX_PEAK_MIB
            if role == "frontend":
                stub = FrontendStub(open_channel(address))
                await register(stub)
                assert (await stub.schedule(schedule("a", payload=b"1"))).id
                await stub.channel.close()
            elif role == "controller":
                await torturer.send("Controller/NextWork", asks(), OK)
            else:
                await torturer.send(
                    "HSC/ClaimTasks", h.ClaimTasksRequest(executor_id="e", nonce="n").SerializeToString(), OK
                )
        process.terminate()
        assert process.stderr is not None
        text = await process.stderr.read()
        assert await end(process) == 0
        assert SECRET.encode() not in text
        assert b"Traceback" not in text
        assert len(text.splitlines()) < 20
    data.release()
