"""What one caller may ask of a server at once, and what bounds slow and huge requests; over the wire where it is seen there."""

from __future__ import annotations

import asyncio
import resource
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from atf.auth.caller import Caller, CallerKind
from atf.auth.grants import TokenGrant, Verb
from atf.client.retrying import RepeatingCalls
from atf.config.settings import SecuritySettings
from atf.errors import ConfigError, DeadlineExceeded, TooManyCalls, Unauthenticated, Unavailable
from atf.metrics.metrics import Metrics
from atf.metrics.table import CALLS_REFUSED
from atf.process.descriptors import SPARE
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.rpc.caller_limits import BURST_S, MOST_CALLERS, READS, CallerLimits, most_connections
from atf.rpc.caller_security import Security
from atf.rpc.channel import AioChannel
from atf.rpc.open_services import READS as OPEN_READS
from atf.rpc.server import SERVER_OPTIONS, Server, Service, serve
from atf.rpc.server_security import ServerSecurity
from atf.rpc.stubs import FrontendStub
from atf.runtime import SystemRuntime
from proof.fuzz import raw_http2 as raw

FRONTEND = f.DESCRIPTOR.services_by_name["Frontend"]
HEALTH, REFLECTION = "/grpc.health.v1.Health/Check", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
GET = "/atf.v1.Frontend/GetTask"


def limits(metrics: Metrics | None = None, read_s: float = 30, **given: int) -> CallerLimits:
    return CallerLimits(SecuritySettings(**given), metrics or Metrics(), read_s=read_s)  # type: ignore[arg-type]


class Holds:
    """A frontend that answers when it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.let_go = asyncio.Event()

    async def get_task(self, request: f.GetTaskRequest) -> t.Task:
        self.begun += 1
        if request.id != "quick":
            await self.let_go.wait()
        return t.Task(id=request.id)

    async def schedule_batch(self, requests: AsyncIterator[b.ScheduleBatchRequest]) -> b.ScheduleBatchReply:
        await anext(requests)
        self.begun += 1
        await self.let_go.wait()
        return b.ScheduleBatchReply()

    async def watch_log(self, request: f.WatchLogRequest) -> AsyncGenerator[f.GetLogReply, None]:
        yield f.GetLogReply(why_none=request.id)
        await self.let_go.wait()

    def __getattr__(self, name: str) -> object:
        return None  # the other methods, which nobody calls here

    async def has(self, calls: int) -> None:
        while self.begun < calls:
            await asyncio.sleep(0.002)


class Door:
    """Knows every token, by itself; but not `wrong`. What starts with `atfx` is an executor's, of the token `a`."""

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:  # noqa: ARG002
        if not shown or shown.endswith("wrong"):
            raise Unauthenticated("who is that?")
        grant = TokenGrant(frozenset({Verb.ADMIN}), frozenset({"*"}))
        if shown[7:].startswith("atfx"):
            return Caller(CallerKind.EXECUTOR, f"executor {shown[7:]} by token a", grant, shown[7:], behind="token a")
        return Caller(CallerKind.TOKEN, f"token {shown[7:]}", grant)


@asynccontextmanager
async def serving(bounds: CallerLimits, *, auth: bool = False) -> AsyncIterator[tuple[Holds, Server]]:
    logic = Holds()
    security = ServerSecurity(Door() if auth else None, limits=bounds)
    server = await serve("127.0.0.1:0", [Service(FRONTEND, logic)], security=security)
    try:
        yield logic, server
    finally:
        logic.let_go.set()
        await server.stop(0.5)


@asynccontextmanager
async def calling(server: Server, token: str = "") -> AsyncIterator[FrontendStub]:
    # Else gRPC shares one connection of this process among all.
    channel = AioChannel(server.address, [("grpc.use_local_subchannel_pool", 1)], Security(token=token))
    try:
        yield FrontendStub(channel)
    finally:
        await channel.close()


def refusals(metrics: Metrics) -> dict[str, Any]:
    return {labels[0]: value for labels, value in metrics.values(CALLS_REFUSED) if value}


async def test_calls_under_way_are_bounded_for_each_connection() -> None:
    metrics = Metrics()
    async with (
        serving(limits(metrics, caller_calls=2)) as (logic, server),
        calling(server) as one,
        calling(server) as other,
    ):
        held = [asyncio.ensure_future(one.get_task(f.GetTaskRequest(id=str(n)))) for n in range(2)]
        await logic.has(2)
        with pytest.raises(
            TooManyCalls, match=r"127\.0\.0\.1:\d+ has 2 calls under way, and caller_calls allows no more"
        ):
            await one.get_task(f.GetTaskRequest(id="quick"))
        assert (await other.get_task(f.GetTaskRequest(id="quick"))).id == "quick"
        logic.let_go.set()
        assert [each.id for each in await asyncio.gather(*held)] == ["0", "1"]
        assert (await one.get_task(f.GetTaskRequest(id="quick"))).id == "quick"
    assert refusals(metrics) == {"calls": 1}


async def test_a_token_is_bounded_over_all_its_connections() -> None:
    async with (
        serving(limits(caller_calls=1), auth=True) as (logic, server),
        calling(server, "a") as one,
        calling(server, "a") as two,
        calling(server, "b") as other,
    ):
        held = asyncio.ensure_future(one.get_task(f.GetTaskRequest(id="x")))
        await logic.has(1)
        with pytest.raises(TooManyCalls, match="token a has 1 calls"):
            await two.get_task(f.GetTaskRequest(id="quick"))
        await other.get_task(f.GetTaskRequest(id="quick"))
        logic.let_go.set()
        await held


async def test_executors_count_as_the_token_that_they_work_by() -> None:
    async with (
        serving(limits(caller_calls=2), auth=True) as (logic, server),
        calling(server, "a") as token,
        calling(server, "atfx1") as one,
        calling(server, "atfx2") as two,
        calling(server, "b") as other,
    ):
        held = [asyncio.ensure_future(each.get_task(f.GetTaskRequest(id="x"))) for each in (token, one)]
        await logic.has(2)
        with pytest.raises(TooManyCalls, match="token a has 2 calls"):
            await two.get_task(f.GetTaskRequest(id="quick"))
        await other.get_task(f.GetTaskRequest(id="quick"))
        logic.let_go.set()
        await asyncio.gather(*held)


async def test_open_streams_are_bounded() -> None:
    metrics = Metrics()
    async with serving(limits(metrics, caller_streams=1)) as (_, server), calling(server) as stub:
        first = stub.watch_log(f.WatchLogRequest(id="a"))
        assert (await anext(first)).why_none == "a"
        with pytest.raises(TooManyCalls, match="has 1 streams open, and caller_streams"):
            await anext(stub.watch_log(f.WatchLogRequest(id="b")))
        await stub.get_task(f.GetTaskRequest(id="quick"))
        await first.aclose()
        while True:  # the server hears of it a moment later
            try:
                assert (await anext(stub.watch_log(f.WatchLogRequest(id="b")))).why_none == "b"
                break
            except TooManyCalls:
                await asyncio.sleep(0.005)
    assert refusals(metrics)["streams"] >= 1


async def test_bytes_under_way_are_bounded() -> None:
    metrics = Metrics()
    async with serving(limits(metrics, caller_mib=1)) as (logic, server), calling(server) as stub:
        held = asyncio.ensure_future(stub.get_task(f.GetTaskRequest(id="x" * (1 << 20))))
        await logic.has(1)
        with pytest.raises(TooManyCalls, match="has requests of 1 MiB under way, and caller_mib"):
            await stub.get_task(f.GetTaskRequest(id="quick"))
        logic.let_go.set()
        await held
        await stub.get_task(f.GetTaskRequest(id="quick"))
    assert refusals(metrics) == {"bytes": 1}


def test_streams_on_which_a_caller_sends_are_bounded_by_what_they_may_have_under_way() -> None:
    metrics = Metrics()
    bounds = limits(metrics, caller_mib=10)
    first, _ = [bounds.begin("a", 0, stream=True, sends=True) for _ in range(2)]
    with pytest.raises(TooManyCalls, match="a sends on 2 streams, of 5 MiB each at once, and caller_mib"):
        bounds.begin("a", 0, stream=True, sends=True)
    bounds.begin("b", 0, stream=True, sends=True)
    bounds.end(bounds.begin("a", 0, stream=True), stream=True)
    bounds.end(first, stream=True, sends=True)
    bounds.begin("a", 0, stream=True, sends=True)
    assert refusals(metrics) == {"bytes": 1}


async def test_batches_that_are_sent_count_as_such_streams() -> None:
    async with serving(limits(caller_mib=1)) as (logic, server), calling(server) as stub:
        held = asyncio.ensure_future(stub.schedule_batch(never_ending()))
        await logic.has(1)
        with pytest.raises(TooManyCalls, match="sends on 1 streams"):
            await stub.schedule_batch(never_ending())
        assert (await stub.get_task(f.GetTaskRequest(id="quick"))).id == "quick"
        logic.let_go.set()
        await held


async def never_ending() -> AsyncIterator[b.ScheduleBatchRequest]:
    yield b.ScheduleBatchRequest()
    await asyncio.Event().wait()


def test_calls_a_second_are_bounded() -> None:
    metrics = Metrics()
    bounds, rate = limits(metrics, caller_rate=10), 10
    burst = int(BURST_S * rate)
    for _ in range(burst):
        bounds.end(bounds.begin("a", 5.0))
    with pytest.raises(TooManyCalls, match="a makes more than 10 calls a second, and caller_rate"):
        bounds.begin("a", 5.0)
    bounds.end(bounds.begin("b", 5.0))
    bounds.end(bounds.begin("a", 5.0 + 1.01 / rate))
    with pytest.raises(TooManyCalls):
        bounds.begin("a", 5.0 + 1.02 / rate)
    assert refusals(metrics) == {"rate": 2}


def test_callers_are_forgotten_that_have_nothing_under_way() -> None:
    bounds = limits()
    busy = bounds.begin("busy", 0)
    for each in range(MOST_CALLERS + 5):
        bounds.end(bounds.begin(str(each), float(each)))
    known = vars(bounds)["_callers"]
    assert len(known) <= MOST_CALLERS
    assert known["busy"] is busy


def test_callers_are_not_forgotten_while_they_must_wait_for_their_next_call() -> None:
    bounds = limits(caller_rate=1)
    for _ in range(int(BURST_S)):
        bounds.end(bounds.begin("a", 0))
    for each in range(MOST_CALLERS + 5):
        bounds.end(bounds.begin(str(each), 0.5))
    with pytest.raises(TooManyCalls, match="a makes more than 1 calls a second"):
        bounds.begin("a", 0.5)
    for each in range(2 * MOST_CALLERS):
        bounds.end(bounds.begin(f"later {each}", 0.5 + BURST_S))
    assert "a" not in vars(bounds)["_callers"], "it has waited for long enough"


def test_a_refusal_is_worth_another_try() -> None:
    assert issubclass(TooManyCalls, Unavailable)
    assert TooManyCalls.code == "RESOURCE_EXHAUSTED"


async def test_a_client_repeats_a_call_that_was_refused() -> None:
    metrics = Metrics()
    async with serving(limits(metrics, caller_calls=1)) as (logic, server), calling(server) as stub:
        held = asyncio.ensure_future(stub.get_task(f.GetTaskRequest(id="x")))
        await logic.has(1)
        client = RepeatingCalls("", 10, stub, SystemRuntime())
        repeated = asyncio.ensure_future(
            client.repeat(lambda timeout: stub.get_task(f.GetTaskRequest(id="quick"), timeout=timeout))
        )
        while not refusals(metrics):
            await asyncio.sleep(0.002)
        logic.let_go.set()
        assert (await repeated).id == "quick"
        await held


@pytest.mark.parametrize("name", ["caller_calls", "caller_streams", "caller_mib", "caller_rate"])
def test_a_limit_is_one_at_least(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} = 0"):
        SecuritySettings(**{name: 0})  # type: ignore[arg-type]


async def test_health_and_reflection_count_by_the_address_of_whoever_asks() -> None:
    metrics = Metrics()
    async with serving(limits(metrics, read_s=0.1, caller_streams=1), auth=True) as (_, server):
        slow = await raw.RawConnection.open(server.address)
        slow.send(raw.call("/grpc.health.v1.Health/Check", 1))
        assert b"has not come within 0.1 s" in (await slow.frame(raw.HEADERS)).data
        await slow.close()
        async with grpc.aio.insecure_channel(server.address) as channel:
            ask, stub = health_pb2.HealthCheckRequest, health_pb2_grpc.HealthStub(channel)
            watching = stub.Watch(ask())
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
            assert (await stub.Check(ask())).status == health_pb2.HealthCheckResponse.SERVING
            reflecting = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(()))
            for refused in (stub.Watch(ask()), reflecting):
                with pytest.raises(grpc.aio.AioRpcError, match=r"ipv4:127\.0\.0\.1 has 1 streams open"):
                    await refused.read()
            watching.cancel()
        assert refusals(metrics) == {"slow": 1, "streams": 2}


@pytest.mark.parametrize("path", [HEALTH, REFLECTION])
async def test_few_requests_to_health_and_reflection_are_read_at_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atf.rpc.open_services.WAITING", 6)
    bounds = limits(read_s=0.1)
    async with serving(bounds) as (_, server):
        slow = await raw.RawConnection.open(server.address)
        for number in range(1, 23, 2):
            slow.send(raw.call(path, number) + raw.Frame(raw.DATA, 0, number, raw.message(bytes(100))[:20]).packed())
        refused = await slow.frame(raw.HEADERS)
        assert refused.stream == 21
        assert b"6 requests from this address wait" in refused.data
        assert b"has not come within 0.1 s" in (await slow.frame(raw.HEADERS)).data
        (usage,) = vars(bounds)["_callers"].values()
        assert usage.reads <= OPEN_READS
        await slow.close()


async def test_little_of_a_message_is_taken_before_anybody_reads_it() -> None:
    async with serving(limits()) as (_, server):
        caller = await raw.RawConnection.open(server.address)
        settings = dict(struct.iter_unpack(">HI", (await caller.frame(raw.SETTINGS)).data))
        assert settings.get(4, 65_535) <= 262_144
        await caller.close()
    assert ("grpc.http2.bdp_probe", 0) in SERVER_OPTIONS, "else that grows"


@pytest.mark.parametrize("path", [HEALTH, REFLECTION])
async def test_health_and_reflection_refuse_what_they_can_not_read(
    path: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(limits()) as (_, server):
        caller = await raw.RawConnection.open(server.address)
        caller.send(raw.call(path, 1) + raw.Frame(raw.DATA, raw.END_STREAM, 1, raw.message(b"\xff")).packed())
        assert b"what was sent can't be read" in (await caller.frame(raw.HEADERS)).data
        await caller.close()
    assert "Traceback" not in "".join(capfd.readouterr())


# --- slow and huge requests -------------------------------------------------------------------------------------------


async def test_a_request_that_does_not_come_is_given_up() -> None:
    metrics = Metrics()
    async with serving(limits(metrics, read_s=0.1)) as (logic, server):
        slow = await raw.RawConnection.open(server.address)
        slow.send(raw.call(GET, 1) + raw.Frame(raw.DATA, 0, 1, raw.message(bytes(100))[:20]).packed())
        answer = await slow.frame(raw.HEADERS)
        assert b"has not come within 0.1 s" in answer.data
        assert logic.begun == 0
        await slow.close()
    assert refusals(metrics) == {"slow": 1}


async def test_who_is_not_let_in_is_refused_before_a_byte_of_the_request_is_read() -> None:
    async with serving(limits(), auth=True) as (_, server):
        stranger = await raw.RawConnection.open(server.address)
        stranger.send(raw.call(GET, 1, [("authorization", "Bearer wrong")]))
        assert b"who is that?" in (await stranger.frame(raw.HEADERS)).data
        await stranger.close()


async def test_a_call_without_a_request_is_told_so() -> None:
    async with serving(limits()) as (_, server):
        caller = await raw.RawConnection.open(server.address)
        caller.send(raw.call(GET, 1) + raw.Frame(raw.DATA, raw.END_STREAM, 1, b"").packed())
        assert b"no request was sent" in (await caller.frame(raw.HEADERS)).data
        await caller.close()


async def test_a_flood_of_streams_stops_at_the_limit() -> None:
    async with serving(limits(caller_calls=10)) as (logic, server):
        flood = await raw.RawConnection.open(server.address)
        settings = (await flood.frame(raw.SETTINGS)).data
        allowed = dict(struct.iter_unpack(">HI", settings))
        assert allowed[3] == 10 + 64
        request = raw.message(f.GetTaskRequest(id="held").SerializeToString())
        for number in range(1, 1_001, 2):
            flood.send(raw.call(GET, number) + raw.Frame(raw.DATA, raw.END_STREAM, number, request).packed())
        ended = 0
        try:
            while ended < 490:
                frame = await flood.frame(raw.HEADERS, raw.RESET, raw.GOAWAY)
                ended += frame.kind == raw.RESET or bool(frame.flags & raw.END_STREAM)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # gRPC ended the connection
        assert logic.begun == 10
        async with calling(server) as other:
            await other.get_task(f.GetTaskRequest(id="quick"))
        await flood.close()


async def test_metadata_of_megabytes_is_refused_and_others_are_served() -> None:
    async with serving(limits()) as (_, server), grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(GET)(b"", metadata=[("x-much", "a" * (4 << 20))], timeout=5)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with calling(server) as other:
            await other.get_task(f.GetTaskRequest(id="quick"))


async def test_so_many_requests_of_a_caller_are_read_at_once() -> None:
    bounds = limits(read_s=0.2)
    one, other, never = bounds.begin("a", 0), bounds.begin("b", 0), asyncio.Event()
    now = asyncio.get_running_loop().time()

    async def quick() -> bytes:
        return b"there"

    slow = [asyncio.ensure_future(bounds.read(one, never.wait, now)) for _ in range(READS)]
    await asyncio.sleep(0)
    waiting = [asyncio.ensure_future(bounds.read(one, quick, now)) for _ in range(3)]
    await asyncio.sleep(0)
    assert await bounds.read(other, quick, now) == b"there"
    waiting[0].cancel()
    assert not any(each.done() for each in waiting[1:])
    slow[0].cancel()
    assert await asyncio.gather(*waiting[1:]) == [b"there", b"there"]
    with pytest.raises(asyncio.CancelledError):
        await slow[0]
    for each in slow[1:]:
        with pytest.raises(DeadlineExceeded, match="has not come within"):
            await each


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atf.rpc.server.most_connections", lambda: 3)
    async with serving(limits()) as (_, server):
        first = [await raw.RawConnection.open(server.address) for _ in range(3)]
        for each in first:
            await each.frame(raw.SETTINGS)
        assert not await is_taken(server)
        await first.pop().close()
        while not await is_taken(server):  # the server hears of it a moment later
            await asyncio.sleep(0.01)
        for each in first:
            await each.close()


async def test_a_connection_that_calls_nothing_ends_and_its_client_connects_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    idle = [(name, 200 if name == "grpc.max_connection_idle_ms" else value) for name, value in SERVER_OPTIONS]
    monkeypatch.setattr("atf.rpc.server.SERVER_OPTIONS", idle)
    async with serving(limits()) as (_, server), calling(server) as stub:
        await stub.get_task(f.GetTaskRequest(id="quick"))
        quiet = await raw.RawConnection.open(server.address)
        assert (await quiet.frame(raw.GOAWAY)).kind == raw.GOAWAY
        await asyncio.sleep(0.3)
        assert (await stub.get_task(f.GetTaskRequest(id="quick"))).id == "quick"
        await quiet.close()


async def is_taken(server: Server) -> bool:
    """Whether a new connection is."""
    opened = await raw.RawConnection.open(server.address)
    try:
        await opened.frame(raw.SETTINGS)
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    finally:
        await opened.close()
    return True


@pytest.mark.parametrize(("limit", "most"), [(1024, 1024 - SPARE), (1, 1), (resource.RLIM_INFINITY, 1 << 20)])
def test_connections_leave_descriptors_for_the_rest(monkeypatch: pytest.MonkeyPatch, limit: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert most_connections() == most
