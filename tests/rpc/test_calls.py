"""Calls between roles over a real loopback connection: what arrives, and how errors come back as themselves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_status import rpc_status

from atf import errors
from atf.rpc import controller_pb2 as c, frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t
from atf.rpc.channel import BlockingChannel, open_channel
from atf.rpc.failure import to_error
from atf.rpc.server import Server, Service, serve
from atf.rpc.stub import snake_case
from atf.rpc.stubs import ControllerStub, FrontendStub, HSCStub, StoreConsumerStub

FRONTEND = f.DESCRIPTOR.services_by_name["Frontend"]
CONTROLLER = c.DESCRIPTOR.services_by_name["Controller"]
HSC = h.DESCRIPTOR.services_by_name["HSC"]


class Answers:
    """Stands for a role: every method of every service answers by `answer`."""

    def __init__(self, answer: Callable[..., Awaitable[object]]) -> None:
        self.answer = answer

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        return self.answer


@contextlib.asynccontextmanager
async def running(answer: Callable[[object], Awaitable[object]]) -> AsyncIterator[Server]:
    logic = Answers(answer)
    server = await serve("127.0.0.1:0", [Service(each, logic) for each in (FRONTEND, CONTROLLER, HSC)])
    try:
        yield server
    finally:
        await server.stop(0)


def raising(error: Exception) -> Callable[[object], Awaitable[object]]:
    async def answer(_request: object) -> object:
        raise error

    return answer


async def echo_id(request: object) -> object:
    assert isinstance(request, f.GetTaskRequest)
    return t.Task(id=request.id)


async def test_a_call_reaches_the_method_of_its_name() -> None:
    async with running(echo_id) as server:
        channel = open_channel(server.address)
        assert (await FrontendStub(channel).get_task(f.GetTaskRequest(id="0-a"))).id == "0-a"
        await channel.close()


def test_every_method_of_every_service_has_a_stub() -> None:
    for stub in (FrontendStub, ControllerStub, HSCStub, StoreConsumerStub):
        for name in stub.service.methods_by_name:
            assert callable(getattr(stub, snake_case(name))), name


@pytest.mark.parametrize("kind", [kind for _, kind in sorted(errors.BY_REASON.items()) if kind is not errors.AtfError])
async def test_every_error_comes_back_as_itself(kind: type[errors.AtfError]) -> None:
    async with running(raising(kind("the sentence, with ünïcode"))) as server:
        channel = open_channel(server.address)
        with pytest.raises(kind) as caught:
            await FrontendStub(channel).get_task(f.GetTaskRequest())
        assert type(caught.value) is kind
        assert str(caught.value) == "the sentence, with ünïcode"
        await channel.close()


async def test_other_clients_read_the_details_as_google_rpc() -> None:
    from google.rpc.error_details_pb2 import ErrorInfo

    async with (
        running(raising(errors.UnknownLambda("no such"))) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        call = channel.unary_unary("/atf.v1.Frontend/GetTask")(b"")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        status = await rpc_status.aio.from_call(call)
        info = ErrorInfo()
        assert status.details[0].Unpack(info)
        assert (info.reason, info.domain) == ("UnknownLambda", "atf")


async def test_an_error_may_be_said_in_another_domain_s_words() -> None:
    error = errors.AlreadyExists("taken").with_reason("ACME_TAKEN", "acme.example")
    assert errors.AlreadyExists("another").reason == "AlreadyExists"
    async with (
        running(raising(error)) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        call = channel.unary_unary("/atf.v1.Frontend/GetTask")(b"")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        (detail,) = (await rpc_status.aio.from_call(call)).details
        assert b"ACME_TAKEN" in detail.value
        assert b"acme.example" in detail.value
        assert b"atf" not in detail.value
        stub = FrontendStub(open_channel(server.address))
        with pytest.raises(errors.AlreadyExists, match="taken"):  # by its code: no reason of ours comes along
            await stub.get_task(f.GetTaskRequest())
        await stub.channel.close()


async def test_a_service_may_take_what_came_along_with_a_call() -> None:
    got: list[Mapping[str, str]] = []

    async def answer(request: object, metadata: Mapping[str, str]) -> object:
        got.append(metadata)
        return await echo_id(request)

    service = Service(FRONTEND, Answers(answer), name="acme.v1.Other", metadata=True)
    server = await serve("127.0.0.1:0", [service])
    async with grpc.aio.insecure_channel(server.address) as channel:
        method = channel.unary_unary("/acme.v1.Other/GetTask")
        sent = (("who", "me"), ("picture-bin", b"\0"))
        assert (
            t.Task.FromString(await method(f.GetTaskRequest(id="0-a").SerializeToString(), metadata=sent)).id == "0-a"
        )
    await server.stop(0)
    (metadata,) = got
    assert metadata["who"] == "me"
    assert "picture-bin" not in metadata, "it is no text"


async def test_a_bug_is_internal_and_says_nothing_of_the_inside(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(raising(ZeroDivisionError("secret internals"))) as server:
        channel = open_channel(server.address)
        with pytest.raises(errors.Internal, match=r"^GetTask failed inside the server") as caught:
            await FrontendStub(channel).get_task(f.GetTaskRequest())
        assert "secret" not in str(caught.value)
        await channel.close()
    assert "ZeroDivisionError" in capsys.readouterr().err


async def test_a_very_long_sentence_is_cut() -> None:
    async with running(raising(errors.InvalidArgument("é" * 100_000))) as server:
        channel = open_channel(server.address)
        with pytest.raises(errors.InvalidArgument) as caught:
            await FrontendStub(channel).get_task(f.GetTaskRequest())
        assert 100 < len(str(caught.value)) < 2_000
        await channel.close()


async def test_a_server_that_is_not_there_is_unavailable_and_named() -> None:
    async with running(echo_id) as server:
        address = server.address
    channel = open_channel(address)
    with pytest.raises(errors.Unavailable, match=rf"^GetTask: can't reach {address} \(Connection refused\)$"):
        await FrontendStub(channel).get_task(f.GetTaskRequest())
    await channel.close()


async def test_a_name_that_nobody_knows_is_said_as_grpc_says_it() -> None:
    """Which nests its reasons in brackets."""
    said = (
        "errors resolving no.such.invalid:1: [field:hostname lookup error:address lookup failed: Domain name not found]"
    )
    failed = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), said)
    found = to_error(failed, "no.such.invalid:1", "/atf.v1.Frontend/GetTask", 1)
    assert str(found) == "GetTask: can't reach no.such.invalid:1 (Domain name not found)"


@pytest.mark.parametrize(
    "address",
    ["", "http://frontends:7401", "https://frontends", "frontends", "frontends:seven", ":7401", "::1:7401", "a b:1"],
)
async def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    """And not after the time of a call, as one that can't be reached."""
    with pytest.raises(errors.InvalidArgument, match="is no address of a server: write HOST:PORT"):
        open_channel(address)


@pytest.mark.parametrize(
    "address", ["frontends:7401", "[::1]:7401", "unix:/run/atf", "dns:///frontends:7401", "ipv4:10.0.0.1:7"]
)
async def test_an_address_may_have_any_form_of_grpc(address: str) -> None:
    await open_channel(address).close()


async def test_a_role_that_comes_back_is_found_again() -> None:
    async with running(echo_id) as server:
        port, channel = server.port, open_channel(server.address)
        stub = FrontendStub(channel)
        await stub.get_task(f.GetTaskRequest())
    with pytest.raises(errors.Unavailable):
        await stub.get_task(f.GetTaskRequest())
    again = await serve(f"127.0.0.1:{port}", [Service(FRONTEND, Answers(echo_id))])
    async with asyncio.timeout(30):
        while True:
            try:
                await stub.get_task(f.GetTaskRequest())
                break
            except errors.Unavailable:
                await asyncio.sleep(0.02)
    await channel.close()
    await again.stop(0)


async def test_a_connection_that_grpc_calls_broken_is_opened_anew_and_calls_under_way_end_on_it() -> None:
    callers: list[str] = []
    begun, may_end, may_fail = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(data: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        callers.append(context.peer())
        asked = f.GetTaskRequest.FromString(data).id
        if asked == "slow":
            begun.set()
            await may_end.wait()
        elif asked == "late":
            await may_fail.wait()
            await context.abort(grpc.StatusCode.INTERNAL, "Stream removed")
        elif asked == "unreadable":  # as gRPC has it of an answer that is no message
            await context.abort(grpc.StatusCode.INTERNAL, "Exception deserializing response!")
        elif asked != "fine":  # as gRPC has it where it can't read the headers of a call: without details
            await context.abort(
                grpc.StatusCode[asked], "Stream removed (RST_STREAM (Received RST_STREAM with error code 2))"
            )
        return t.Task(id=asked).SerializeToString()

    async def watch(_data: bytes, _context: object) -> AsyncIterator[bytes]:
        yield t.Task(id="first").SerializeToString()
        await may_end.wait()
        yield t.Task(id="last").SerializeToString()

    server = grpc.aio.server()
    handlers = {
        "GetTask": grpc.unary_unary_rpc_method_handler(answer),
        "Watch": grpc.unary_stream_rpc_method_handler(watch),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(FRONTEND.full_name, handlers),))
    channel = open_channel(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    await server.start()
    stub = FrontendStub(channel)
    slow = asyncio.ensure_future(stub.get_task(f.GetTaskRequest(id="slow")))
    late = asyncio.ensure_future(stub.get_task(f.GetTaskRequest(id="late")))
    await begun.wait()
    stream = channel.receive(f"/{FRONTEND.full_name}/Watch", f.GetTaskRequest(), t.Task, 30)
    assert (await anext(stream)).id == "first"
    with pytest.raises(errors.FailedPrecondition):
        await stub.get_task(f.GetTaskRequest(id="FAILED_PRECONDITION"))
    with pytest.raises(errors.Internal, match="deserializing"):  # to repeat it would mend nothing
        await stub.get_task(f.GetTaskRequest(id="unreadable"))
    with pytest.raises(errors.Unavailable, match=r"^GetTask: the connection to .* broke \(.*RST_STREAM"):
        await stub.get_task(f.GetTaskRequest(id="INTERNAL"))
    assert len(set(callers)) == 1
    assert (await stub.get_task(f.GetTaskRequest(id="fine"))).id == "fine"
    assert len(set(callers)) == 2, "another connection"
    may_fail.set()
    with pytest.raises(errors.Unavailable):
        await late
    await stub.get_task(f.GetTaskRequest(id="fine"))
    assert len(set(callers)) == 2, "what fails on the old one says nothing of the new one"
    may_end.set()
    assert (await slow).id == "slow"
    assert [each.id async for each in stream] == ["last"]
    begun.clear()
    may_end.clear()
    slow = asyncio.ensure_future(stub.get_task(f.GetTaskRequest(id="slow")))
    await begun.wait()
    with pytest.raises(errors.Unavailable):
        await stub.get_task(f.GetTaskRequest(id="INTERNAL"))
    await channel.close()
    with pytest.raises(errors.Unavailable, match="was closed"):  # on a connection that was given up
        await slow
    await server.stop(0)


async def test_no_answer_in_time_cancels_the_method_and_says_how_long_it_had() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_request: object) -> object:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError("not cancelled")

    async with running(hang) as server:
        channel = open_channel(server.address)
        for seconds in (0.05, 0.5, 5):
            with pytest.raises(errors.DeadlineExceeded, match=rf"NextWork: no answer from .* within {seconds} s"):
                await ControllerStub(channel).next_work(c.NextWorkRequest(), timeout=seconds)
            if started.is_set():
                break  # else the time was over before the call reached the server, as on a busy machine
        async with asyncio.timeout(30):
            await cancelled.wait()
        await channel.close()


async def test_a_caller_that_gives_up_cancels_the_method() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_request: object) -> object:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError("not cancelled")

    async with running(hang) as server:
        channel = open_channel(server.address)
        call = asyncio.create_task(ControllerStub(channel).next_work(c.NextWorkRequest()))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(30):
            await cancelled.wait()
        await channel.close()


async def test_closing_a_channel_fails_what_waits_on_it_without_cancelling_the_waiter() -> None:
    started = asyncio.Event()

    async def hang(_request: object) -> object:
        started.set()
        await asyncio.sleep(60)
        raise AssertionError

    async with running(hang) as server:
        channel = open_channel(server.address)
        stub = ControllerStub(channel)
        call = asyncio.create_task(stub.next_work(c.NextWorkRequest()))
        await started.wait()
        await channel.close()
        with pytest.raises(errors.Unavailable, match="was closed"):
            await call
        with pytest.raises(errors.Unavailable, match="is closed"):
            await stub.next_work(c.NextWorkRequest())


async def test_a_server_that_stops_makes_its_calls_unavailable() -> None:
    started = asyncio.Event()

    async def hang(_request: object) -> object:
        started.set()
        await asyncio.sleep(60)
        raise AssertionError

    async with running(hang) as server:
        channel = open_channel(server.address)
        call = asyncio.create_task(ControllerStub(channel).next_work(c.NextWorkRequest()))
        await started.wait()
        await server.stop(0)
        with pytest.raises(errors.Unavailable):
            await call
        await channel.close()


async def test_another_role_at_the_address_is_said_to_be_one() -> None:
    server = await serve("127.0.0.1:0", [Service(HSC, Answers(echo_id))])
    channel = open_channel(server.address)
    with pytest.raises(errors.FailedPrecondition, match=r"does not know atf\.v1\.Frontend/GetTask"):
        await FrontendStub(channel).get_task(f.GetTaskRequest())
    await channel.close()
    await server.stop(0)


async def while_busy(address: str, calls: int) -> list[Any]:
    """Calls that come while the server's event loop, which is that of the caller of this, does nothing else; ended."""
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary("/atf.v1.Frontend/GetTask", f.GetTaskRequest.SerializeToString)
        waiting = [ask.future(f.GetTaskRequest(id="a")) for _ in range(calls)]
        await asyncio.to_thread(lambda: [each.exception() for each in waiting])
    return waiting


async def test_calls_that_come_while_a_server_is_busy_wait_for_it() -> None:
    async with running(echo_id) as server:
        ended = await while_busy(server.address, 1_500)
    assert {each.code() for each in ended} == {grpc.StatusCode.OK}


async def test_a_server_that_is_too_busy_refuses_calls_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    few = (("grpc.server.max_pending_requests", 0), ("grpc.server.max_pending_requests_hard_limit", 1))
    monkeypatch.setattr("atf.rpc.server.SERVER_OPTIONS", few)
    async with running(echo_id) as server:
        refused = [each for each in await while_busy(server.address, 50) if each.code() is not grpc.StatusCode.OK]
    for each in refused:
        error = to_error(each, "frontend:50051", "/atf.v1.Frontend/GetTask", 10)
        assert isinstance(error, errors.Unavailable)
        assert str(error) == "GetTask: frontend:50051 is too busy and has not taken the call"
    assert refused


async def test_a_message_that_is_too_large_is_the_callers_fault() -> None:
    async with running(echo_id) as server:
        channel = open_channel(server.address)
        with pytest.raises(errors.InvalidArgument, match="at most 5 MiB"):
            await FrontendStub(channel).get_task(f.GetTaskRequest(id="x" * (6 << 20)))
        await channel.close()


async def test_a_blocking_stub_answers_and_fails_like_the_others() -> None:
    async def beat(request: object) -> object:
        assert isinstance(request, h.HeartbeatRequest)
        if not request.claims:
            raise errors.ClaimsPaused("claims are paused")
        return h.HeartbeatReply(verdicts=[h.Verdict.OK])

    def from_a_thread(address: str) -> h.HeartbeatReply:
        async def body() -> h.HeartbeatReply:
            stub = HSCStub(BlockingChannel(address))
            reply = await stub.heartbeat(h.HeartbeatRequest(claims=[h.HeldClaim()]), timeout=2)
            with pytest.raises(errors.ClaimsPaused, match="claims are paused"):
                await stub.heartbeat(h.HeartbeatRequest(), timeout=2)
            await stub.channel.close()
            with pytest.raises(errors.Unavailable, match="is closed"):
                await stub.heartbeat(h.HeartbeatRequest(), timeout=2)
            return reply

        return asyncio.run(body())

    async with running(beat) as server:
        reply = await asyncio.to_thread(from_a_thread, server.address)
        assert list(reply.verdicts) == [h.Verdict.OK]
