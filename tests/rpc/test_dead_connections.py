"""A peer that takes bytes and never answers: what has failed once is not asked again on the same connection."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from atf import errors
from atf.client.transport import ForkSafeBlockingChannel as ThreadChannel, ForkSafeChannel
from atf.rpc import connection as channels, dapr_runtime_pb2 as d, frontend_pb2 as f, task_pb2 as t
from atf.rpc.channel import AioChannel, BlockingChannel
from atf.rpc.dapr_app import DaprApp
from atf.rpc.failure import to_error
from atf.rpc.server import SERVER_OPTIONS
from atf.rpc.stubs import FrontendStub

from .test_calls import running

T = TypeVar("T")
PATH = "/atf.v1.Frontend/GetTask"
SHORT = 0.2
"""Seconds of a call that is not answered."""


class Swallowing:
    """A proxy that takes bytes, and from `swallow` to `answer` passes nothing on of the connections that it has."""

    def __init__(self, target: str) -> None:
        self.address = ""
        self.connections = 0
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._deaf: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._new_are_deaf = False

    def swallow(self, *, new: bool = False) -> None:
        """The connections there are lead nowhere from now on; `new`: those to come, too."""
        self._deaf = set(range(1, self.connections + 1))
        self._new_are_deaf = new

    def answer(self) -> None:
        """New connections lead to the target again."""
        self._new_are_deaf = False

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(asyncio.CancelledError, OSError):
            await self._accept(reader, writer)

    async def end(self) -> None:
        """Cuts every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        if self._new_are_deaf:
            self._deaf.add(number)
        there, back = await asyncio.open_connection(*self._target)
        try:
            await asyncio.gather(self._pass(number, reader, back), self._pass(number, there, writer))
        finally:
            for each in (writer, back):
                each.close()

    async def _pass(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if number not in self._deaf:
                writer.write(data)
        writer.close()


@asynccontextmanager
async def swallowing(target: str) -> AsyncIterator[Swallowing]:
    proxy = Swallowing(target)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()


async def answer(request: Any) -> t.Task:
    return t.Task(id=request.id)


async def _in_a_thread(channel: Any, timeout: float) -> t.Task:
    """A call of a channel that blocks: its own may be a coroutine of gRPC's blocking API, or none."""

    def call() -> Any:
        made: Any = channel.call(PATH, f.GetTaskRequest(id="a"), t.Task, timeout)
        return asyncio.run(made) if asyncio.iscoroutine(made) else made

    answered: t.Task = await asyncio.to_thread(call)
    return answered


async def _on_the_loop(channel: Any, timeout: float) -> t.Task:
    made: t.Task = await channel.call(PATH, f.GetTaskRequest(id="a"), t.Task, timeout)
    return made


async def test_a_connection_that_is_old_is_replaced_and_no_call_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a caller would never find the servers that have been added."""
    assert ("grpc.max_connection_age_ms", 600_000) in SERVER_OPTIONS
    monkeypatch.setattr("atf.rpc.server.SERVER_OPTIONS", (("grpc.max_connection_age_ms", 50),))
    async with running(answer) as server, swallowing(server.address) as proxy:
        channel = AioChannel(proxy.address)
        while proxy.connections < 4:
            made: t.Task = await channel.call(PATH, f.GetTaskRequest(id="a"), t.Task, 10)
            assert made.id == "a"
        await channel.close()


KINDS: list[Any] = [
    pytest.param(AioChannel, _on_the_loop, id="aio"),
    pytest.param(ForkSafeChannel, _on_the_loop, id="fork-safe"),
    pytest.param(BlockingChannel, _in_a_thread, id="heartbeats"),
    pytest.param(ThreadChannel, _in_a_thread, id="threads"),
]
every_kind = pytest.mark.parametrize(("kind", "call"), KINDS)
Call = Callable[[Any, float], Any]


async def _close(channel: Any) -> None:
    made = channel.close()
    if asyncio.iscoroutine(made):
        await made


@every_kind
async def test_one_call_fails_on_a_connection_that_leads_nowhere_any_more(
    kind: Callable[[str], Any], call: Call
) -> None:
    async with running(answer) as server, swallowing(server.address) as proxy:
        channel = kind(proxy.address)
        await call(channel, 10)
        proxy.swallow()
        with pytest.raises(errors.DeadlineExceeded, match="no answer"):
            await call(channel, SHORT)
        assert (await call(channel, 10)).id == "a"
        assert proxy.connections == 2
        await _close(channel)


@pytest.mark.processes
@every_kind
async def test_a_call_that_is_slow_costs_no_connection_while_others_are_answered(
    kind: Callable[[str], Any], call: Call
) -> None:
    free = asyncio.Event()

    async def slow(request: Any) -> t.Task:
        if not free.is_set():
            free.set()
            await asyncio.sleep(30)
        return t.Task(id=request.id)

    async with running(slow) as server, swallowing(server.address) as proxy:
        channel = kind(proxy.address)
        first = asyncio.ensure_future(call(channel, 1))
        await free.wait()
        await call(channel, 10)
        with pytest.raises(errors.DeadlineExceeded):
            await first
        await call(channel, 10)
        assert proxy.connections == 1
        await _close(channel)


@pytest.mark.processes
async def test_what_its_caller_gives_up_at_the_same_time_counts_too() -> None:
    for kind in (AioChannel, ForkSafeChannel):
        async with running(answer) as server, swallowing(server.address) as proxy:
            channel = kind(proxy.address)
            await _on_the_loop(channel, 10)
            proxy.swallow()
            with pytest.raises((TimeoutError, errors.DeadlineExceeded)):  # whichever is faster
                async with asyncio.timeout(SHORT * 0.98):
                    await _on_the_loop(channel, SHORT)
            assert (await _on_the_loop(channel, 10)).id == "a"
            proxy.swallow()
            with pytest.raises(TimeoutError):  # long before its own time: that says nothing
                async with asyncio.timeout(SHORT):
                    await _on_the_loop(channel, 60)
            with pytest.raises(errors.DeadlineExceeded):  # on the same connection
                await _on_the_loop(channel, SHORT)
            await channel.close()


async def test_of_the_servers_of_a_name_one_that_went_silent_is_left_out_soon() -> None:
    async with running(answer) as server, swallowing(server.address) as dead, swallowing(server.address) as alive:
        ports = [each.address.rpartition(":")[2] for each in (dead, alive)]
        channel = AioChannel("ipv4:" + ",".join(f"127.0.0.1:{each}" for each in ports))
        while not (dead.connections and alive.connections):
            await _on_the_loop(channel, 10)
        dead.swallow(new=True)
        in_a_row = 0
        while in_a_row < 10:
            try:
                await _on_the_loop(channel, 2.5)  # longer than it takes to notice it
                in_a_row += 1
            except errors.AtfError:
                in_a_row = 0
        await channel.close()


async def test_an_application_of_dapr_that_goes_silent_fails_one_tick() -> None:
    async def on_event(_data: bytes, _context: Any) -> bytes:
        return b""

    server = grpc.aio.server()
    handlers = {"OnJobEvent": grpc.unary_unary_rpc_method_handler(on_event)}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("dapr.proto.runtime.v1.AppCallback", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with swallowing(f"127.0.0.1:{port}") as proxy:
        application = DaprApp(proxy.address)
        assert (await application.on_job_event(d.JobEventRequest(), 10)).code == "OK"
        proxy.swallow()
        assert (await application.on_job_event(d.JobEventRequest(), SHORT)).code == "DEADLINE_EXCEEDED"
        assert (await application.on_job_event(d.JobEventRequest(), 10)).code == "OK"
        assert proxy.connections == 2
    await server.stop(0)


@pytest.mark.processes
async def test_what_waits_is_told_by_the_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"grpc.keepalive_time_ms": 500, "grpc.keepalive_timeout_ms": 500, "grpc.http2.ping_timeout_ms": 500}
    monkeypatch.setattr(channels, "CHANNEL_OPTIONS", tuple({**dict(channels.CHANNEL_OPTIONS), **quick}.items()))
    hang = asyncio.Event()

    async def wait(request: Any) -> Any:
        if isinstance(request, f.WaitTasksRequest):
            hang.set()
            await asyncio.sleep(60)
        return t.Task(id=request.id)

    async with running(wait) as server, swallowing(server.address) as proxy:
        channel = ForkSafeChannel(proxy.address)
        waiting = asyncio.ensure_future(FrontendStub(channel).wait_tasks(f.WaitTasksRequest(), timeout=60))
        await hang.wait()
        proxy.swallow()
        with pytest.raises(errors.Unavailable):
            async with asyncio.timeout(20):
                await waiting
        async with asyncio.timeout(20):
            while True:
                with suppress(errors.Unavailable):  # a machine so busy that half a second is too short for this ping
                    assert (await _on_the_loop(channel, 10)).id == "a"
                    break
        await channel.close()


@pytest.mark.processes
def test_a_frontend_that_has_another_address_under_its_name_is_found_within_the_time_of_a_call(tmp_path: Path) -> None:
    """In a mount namespace of its own, whose table of hosts changes while the first frontend goes."""
    (tmp_path / "hosts").write_text("127.0.0.2 frontends\n")
    inside = ["sh", "-c", f'mount --bind {tmp_path}/hosts /etc/hosts && exec "$@"', "sh"]
    here = [sys.executable, "-P", "-c", _MOVES.format(root=str(Path(__file__).parents[2]))]
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-rm", *inside, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("not run: without mount namespaces a name can not be given another address")
    ran = subprocess.run(["unshare", "-rm", *inside, *here], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == "0-a\n", ran.stderr


_MOVES = """
import asyncio, sys
sys.path.insert(0, {root!r})
import atf, grpc.aio
from atf.rpc import frontend_pb2 as f, task_pb2 as t

async def serve(at):
    async def answer(data, _):
        return t.Task(id=f.GetTaskRequest.FromString(data).id, status=t.NEW).SerializeToString()
    server = grpc.aio.server()
    handlers = {{"GetTask": grpc.unary_unary_rpc_method_handler(answer)}}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("atf.v1.Frontend", handlers),))
    port = server.add_insecure_port(at)
    await server.start()
    return server, port

async def main():
    old, port = await serve("127.0.0.2:0")
    async with atf.AsyncClient(f"frontends:{{port}}", timeout=10) as client:
        await client.get("0-a")
        new, _ = await serve(f"127.0.0.3:{{port}}")
        open("/etc/hosts", "w").write("127.0.0.3 frontends\\n")
        await old.stop(0)
        print((await client.get("0-a")).id)
    await new.stop(0)

asyncio.run(main())
"""


# --- what is given up, with no network ------------------------------------------------------------------------------------


class _Ended(grpc.RpcError):  # type: ignore[misc]
    """A call of gRPC's that has failed."""

    def __init__(self, code: grpc.StatusCode, details: bytes = b"") -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "why"

    def trailing_metadata(self) -> list[tuple[str, bytes]]:
        return [("grpc-status-details-bin", self._details)] if self._details else []


class _Fake:
    """A gRPC channel, whose calls end as the test says: answered, or with a code. `Made.ends` may do more before."""

    def __init__(self, made: _Made) -> None:
        self._made = made

    def unary_unary(self, path: str, **_: Any) -> Any:
        self._made.asked(path)

        def call(_request: Any, **_: Any) -> bytes:
            self._made.called.append(self)
            if (code := self._made.ends.pop(0)()) is not None:
                raise _Ended(code)
            return b""

        return call


class _Made:
    """A connection of the blocking API, and the gRPC channels that it has made.

    Attributes:
        ends: how each of the next calls ends.
        asked: is told the path of each method that a channel is asked for.
        channels: how many were made.
        called: the channel of each call.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends: list[Callable[[], grpc.StatusCode | None]] = []
        self.asked: Callable[[str], object] = str
        self.channels = 0
        self.called: list[_Fake] = []
        monkeypatch.setattr(grpc, "insecure_channel", self._connect)
        self.channel = BlockingChannel("a:1")

    def _connect(self, _address: str, options: Any) -> _Fake:
        assert options
        self.channels += 1
        return _Fake(self)

    def call(self, *ends: grpc.StatusCode | Callable[[], grpc.StatusCode | None] | None, path: str = PATH) -> None:
        """Calls one after the other, however they end."""
        for each in ends:
            self.ends.insert(0, each if callable(each) else partial(lambda code: code, each))
            with suppress(errors.AtfError):
                _at_once(self.channel.call(path, f.GetTaskRequest(id="a"), t.Task, 3))

    def during(self, code: grpc.StatusCode, *others: Any) -> Callable[[], grpc.StatusCode]:
        """A call that ends so, after calls of other threads that began behind it."""

        def ends() -> grpc.StatusCode:
            self.call(*others)
            return code

        return ends


def _at_once(call: Coroutine[Any, Any, T]) -> T:
    """What a coroutine that waits for nothing answers."""
    try:
        call.send(None)
    except StopIteration as done:
        answered: T = done.value
        return answered
    raise AssertionError("it waits")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> _Made:
    return _Made(monkeypatch)


SILENT = grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("code", "answers", "given_up"),
    [
        (grpc.StatusCode.DEADLINE_EXCEEDED, 0, True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 1, False),
        (grpc.StatusCode.INTERNAL, 1, True),
        (grpc.StatusCode.UNAVAILABLE, 0, False),
        (grpc.StatusCode.CANCELLED, 0, False),
        (grpc.StatusCode.INVALID_ARGUMENT, 0, False),
    ],
)
def test_a_channel_is_given_up_only_where_its_peer_may_be_dead(
    made: _Made, code: grpc.StatusCode, answers: int, given_up: bool
) -> None:
    made.call(made.during(code, *[None] * answers), None)
    assert made.channels == 1 + given_up


def test_a_refusal_of_the_server_is_an_answer(made: _Made) -> None:
    made.call(made.during(SILENT, grpc.StatusCode.NOT_FOUND), None)
    assert made.channels == 1
    assert isinstance(to_error(_Ended(SILENT), "a:1", PATH, 3), errors.DeadlineExceeded)


def test_a_channel_that_was_replaced_is_not_given_up_twice(made: _Made) -> None:
    """Three calls are under way on it; each finds it silent, and the others have begun another one by then."""
    unavailable = grpc.StatusCode.UNAVAILABLE  # says nothing of the peer
    made.call(made.during(SILENT, made.during(SILENT, SILENT, unavailable), unavailable), None)
    assert made.channels == 2
    assert len(set(made.called[:3])) == 1


def test_a_method_is_not_kept_of_a_channel_that_is_given_up_meanwhile(made: _Made) -> None:
    def asked(path: str) -> None:
        if path == PATH:
            made.asked = str
            made.call(SILENT, path="/another/thread's")

    made.asked = asked
    made.call(None, None)
    others, first, second = made.called
    assert first is others
    assert second is not first
