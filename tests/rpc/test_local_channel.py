"""Calls within a process: they end as calls over gRPC do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from atf.errors import AtfError, DeadlineExceeded, Internal, NotFound
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.rpc.local_channel import LocalChannel
from atf.rpc.stubs import FrontendStub


class Frontend:
    """Answers some calls of a frontend."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs = False
        self.cancelled = self.closed = False

    def __getattr__(self, name: str) -> object:
        return None  # the calls that no test makes

    async def get_task(self, request: f.GetTaskRequest) -> t.Task:
        if self.error is not None:
            raise self.error
        try:
            await asyncio.sleep(3600 if self.hangs else 0)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return t.Task(id=request.id)

    async def watch_log(self, request: f.WatchLogRequest) -> AsyncGenerator[f.GetLogReply, None]:
        try:
            yield f.GetLogReply(why_none=request.id)
            yield f.GetLogReply()
            await asyncio.sleep(3600 if self.hangs else 0)
        finally:
            self.closed = True

    async def schedule_batch(self, requests: AsyncIterator[b.ScheduleBatchRequest]) -> b.ScheduleBatchReply:
        return b.ScheduleBatchReply(items=len([each async for each in requests]))


@pytest.fixture
def frontend() -> Frontend:
    return Frontend()


@pytest.fixture
def stub(frontend: Frontend) -> FrontendStub:
    return FrontendStub(LocalChannel(f.DESCRIPTOR.services_by_name["Frontend"], frontend))


async def test_a_call_is_answered(stub: FrontendStub) -> None:
    assert (await stub.get_task(f.GetTaskRequest(id="0-a"))).id == "0-a"


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (NotFound("no task 0-a"), NotFound, "no task 0-a"),
        (ValueError("secret"), Internal, "GetTask failed inside this process; its log has the details"),
        (TimeoutError("of something else"), Internal, "GetTask failed inside this process; its log has the details"),
    ],
    ids=["ours", "a bug", "not the deadline"],
)
async def test_an_error_is_the_callers(
    stub: FrontendStub, frontend: Frontend, raised: Exception, kind: type[AtfError], said: str
) -> None:
    frontend.error = raised
    with pytest.raises(kind) as caught:
        await stub.get_task(f.GetTaskRequest())
    assert str(caught.value) == said


async def test_a_call_that_takes_too_long_is_given_up(stub: FrontendStub, frontend: Frontend) -> None:
    frontend.hangs = True
    with pytest.raises(DeadlineExceeded, match=r"GetTask: no answer within 0\.01 s"):
        await stub.get_task(f.GetTaskRequest(), timeout=0.01)
    assert frontend.cancelled


async def test_a_stream_of_requests_is_gathered(stub: FrontendStub) -> None:
    async def requests() -> AsyncIterator[b.ScheduleBatchRequest]:
        for _ in range(3):
            yield b.ScheduleBatchRequest()

    assert (await stub.schedule_batch(requests())).items == 3


@pytest.mark.parametrize("leaves", [False, True], ids=["heard to its end", "left"])
async def test_a_stream_of_replies(stub: FrontendStub, frontend: Frontend, leaves: bool) -> None:
    replies = stub.watch_log(f.WatchLogRequest(id="0-a"))
    heard = 0
    async for _ in replies:
        heard += 1
        if leaves:
            break
    await replies.aclose()
    assert (heard, frontend.closed) == (1 if leaves else 2, True)


async def test_the_deadline_is_that_of_the_whole_stream(stub: FrontendStub, frontend: Frontend) -> None:
    frontend.hangs = True
    heard = 0

    async def hear() -> None:
        nonlocal heard
        async for _ in stub.watch_log(f.WatchLogRequest(), timeout=0.02):
            heard += 1

    with pytest.raises(DeadlineExceeded, match=r"WatchLog: no answer within 0\.02 s"):
        await hear()
    assert (heard, frontend.closed) == (2, True)
