"""A tick on its way to an application that was written for Dapr: an application behind a real port, a frontend that says where."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.wrappers_pb2 import StringValue

from atf import App
from atf.builtin import dapr, with_builtins
from atf.calls.retry import retry
from atf.config.settings import ExecutorSettings
from atf.errors import AtfError, FailedPrecondition, Fatal, Internal, NotFound, ResourceExhausted, Retry, Unavailable
from atf.rpc import dapr_runtime_pb2 as d, frontend_pb2 as f
from atf.rpc.dapr_app import DaprApp
from atf.rpc.server import Service, serve
from atf.sdk.context import Context

STABLE = Service(d.DESCRIPTOR.services_by_name["AppCallback"], None, name="dapr.proto.runtime.v1.AppCallback")
ALPHA = Service(d.DESCRIPTOR.services_by_name["AppCallbackAlpha"], None, name="dapr.proto.runtime.v1.AppCallbackAlpha")
DATA = AnyMessage()
DATA.Pack(StringValue(value="x"))


class Application:
    """What an application hears, and answers."""

    def __init__(self) -> None:
        self.heard: list[d.JobEventRequest] = []
        self.answers: list[AtfError] = []

    async def on_job_event(self, request: d.JobEventRequest) -> d.JobEventResponse:
        self.heard.append(request)
        if self.answers:
            raise self.answers.pop(0)
        return d.JobEventResponse()

    on_job_event_alpha1 = on_job_event


class Frontend:
    """Who says where the applications are."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        self.failures: list[AtfError] = []
        self.asked = 0

    async def find_dapr_app(self, request: f.FindDaprAppRequest, *, timeout: float = 10) -> f.FindDaprAppReply:
        self.asked += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        if request.app_id not in self.addresses:
            raise NotFound(f"no address is set for the app {request.app_id!r}")
        return f.FindDaprAppReply(address=self.addresses[request.app_id])


@asynccontextmanager
async def listening(application: Application, *kinds: Service) -> AsyncIterator[str]:
    services = [Service(kind.descriptor, application, name=kind.name) for kind in kinds or (STABLE,)]
    server = await serve("127.0.0.1:0", services)
    yield server.address
    await server.stop(0)


class Way:
    """Deliveries, and a clock that the test moves."""

    def __init__(self) -> None:
        self.frontend = Frontend()
        self.deliveries = dapr.JobEventSender(lambda: self.frontend)  # type: ignore[arg-type,return-value]  # one of its calls is made
        self.now = 1_000.0

    async def deliver(self, job: str = "dapr.orders/report", data: bytes = DATA.SerializeToString(), **of: Any) -> None:
        scheduled_at = datetime(2030, 1, 1, tzinfo=UTC)
        ctx = Context(
            task_id="0-1",
            lambda_name="atf/dapr-job",
            attempt=1,
            run=1,
            fence=1,
            scheduled_at=scheduled_at,
            job=job,
            **of,
        )
        await self.deliveries.deliver(ctx, data)


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Way:
    made = Way()

    async def sleep(_seconds: float) -> None:
        made.now += 100

    monkeypatch.setattr(dapr, "loop_time", lambda: made.now)
    monkeypatch.setattr(dapr, "retry", partial(retry, sleep=sleep))
    return made


@pytest.fixture
async def application(way: Way) -> AsyncIterator[Application]:
    application = Application()
    async with listening(application) as address:
        way.frontend.addresses["orders"] = address
        yield application


async def test_an_application_hears_of_a_tick_as_from_dapr(way: Way, application: Application) -> None:
    await way.deliver()
    assert application.heard == [
        d.JobEventRequest(
            name="report",
            data=DATA,
            method="job/report",
            content_type="type.googleapis.com/google.protobuf.StringValue",
            http_extension=d.HTTPExtension(verb=d.HTTPExtension.POST),
        )
    ]


async def test_a_tick_without_data_brings_an_empty_any(way: Way, application: Application) -> None:
    await way.deliver(data=b"")
    (event,) = application.heard
    assert event.HasField("data")
    assert (event.data, event.content_type) == (AnyMessage(), "")


@pytest.mark.parametrize("kinds", [(ALPHA,), (STABLE, ALPHA)])
async def test_an_older_callback_is_called_where_there_is_no_other(way: Way, kinds: tuple[Service, ...]) -> None:
    application = Application()
    async with listening(application, *kinds) as address:
        way.frontend.addresses["orders"] = address
        await way.deliver()
    assert len(application.heard) == 1


async def test_what_is_not_found_counts_as_delivered(way: Way, application: Application) -> None:
    application.answers = [NotFound("there is no such job here")]
    await way.deliver()
    assert len(application.heard) == 1


@pytest.mark.parametrize(
    "answer", [Internal("it broke"), FailedPrecondition("it broke"), ResourceExhausted("it broke")]
)
async def test_any_other_answer_fails_the_attempt_and_is_told(
    way: Way, application: Application, answer: AtfError
) -> None:
    application.answers = [answer]
    address = way.frontend.addresses["orders"]
    with pytest.raises(Retry, match=rf"app 'orders' at {address} answered {answer.code}: it broke") as caught:
        await way.deliver()
    assert caught.value.after_s is None, "the failure policy says when"


async def test_an_application_without_callbacks_is_told_to_be_one(way: Way) -> None:
    async with listening_to_nothing() as address:
        way.frontend.addresses["orders"] = address
        with pytest.raises(Retry, match="answered UNIMPLEMENTED"):
            await way.deliver()


@asynccontextmanager
async def listening_to_nothing() -> AsyncIterator[str]:
    server = await serve("127.0.0.1:0", [])
    yield server.address
    await server.stop(0)


async def test_an_application_that_is_away_fails_the_attempt(way: Way) -> None:
    async with listening_to_nothing() as address:
        way.frontend.addresses["orders"] = address
    with pytest.raises(Retry, match=f"at {address} answered UNAVAILABLE"):
        await way.deliver()


async def test_an_application_that_does_not_answer_in_time_fails_the_attempt(
    way: Way, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = asyncio.Event()

    async def hang(_request: Any) -> None:
        await never.wait()

    monkeypatch.setattr(application, "on_job_event", hang)
    monkeypatch.setattr(dapr, "ANSWER_WITHIN_S", 0.05)
    async with listening(application) as address:
        way.frontend.addresses["orders"] = address
        with pytest.raises(Retry, match="answered DEADLINE_EXCEEDED"):
            await way.deliver()
        monkeypatch.setattr(dapr, "ANSWER_WITHIN_S", 300.0)  # by the timeout of the task
        with pytest.raises(Retry, match="answered DEADLINE_EXCEEDED"):
            await way.deliver(deadline=datetime.now(UTC) + timedelta(seconds=0.05))


async def test_an_address_is_remembered_for_a_while_and_asked_for_by_one(way: Way, application: Application) -> None:
    await asyncio.gather(*(way.deliver() for _ in range(5)))
    assert (way.frontend.asked, len(application.heard)) == (1, 5)
    way.now += dapr.ADDRESS_FRESH_S
    await way.deliver()
    assert way.frontend.asked == 2


async def test_an_application_that_has_moved_is_found(way: Way, application: Application) -> None:
    await way.deliver()
    moved = Application()
    async with listening(moved) as address:
        way.frontend.addresses["orders"] = address
        await way.deliver()
        assert moved.heard == [], "the old address is still fresh"
        way.now += dapr.ADDRESS_FRESH_S
        await way.deliver()
    assert (len(application.heard), len(moved.heard)) == (2, 1)


async def test_a_failure_has_the_address_asked_for_again(way: Way, application: Application) -> None:
    application.answers = [Internal("it broke")]
    with pytest.raises(Retry):
        await way.deliver()
    await way.deliver()
    assert way.frontend.asked == 2


@pytest.mark.usefixtures("application")
async def test_one_connection_serves_all_ticks(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[DaprApp] = []

    class Counted(DaprApp):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            made.append(self)

    monkeypatch.setattr("atf.rpc.dapr_app.DaprApp", Counted)
    await way.deliver()
    way.now += dapr.ADDRESS_FRESH_S
    await way.deliver()
    assert len(made) == 1


async def test_a_frontend_that_is_away_costs_no_attempt(way: Way, application: Application) -> None:
    way.frontend.failures = [Unavailable("away"), Unavailable("away")]
    await way.deliver()  # nothing is known yet: it waits for the frontend
    assert way.frontend.asked == 3
    way.now += dapr.ADDRESS_FRESH_S
    way.frontend.failures = [Unavailable("away")]
    await way.deliver()  # by the address that was known
    assert (way.frontend.asked, len(application.heard)) == (4, 2)


async def test_a_frontend_that_stays_away_fails_the_attempt_in_the_end(way: Way) -> None:
    way.frontend.failures = [Unavailable("away") for _ in range(100)]
    with pytest.raises(Retry, match="could not be asked: away"):
        await way.deliver()
    assert way.frontend.asked == 1 + dapr.ANSWER_WITHIN_S / 100


async def test_an_application_that_nobody_knows_fails_the_attempt(way: Way) -> None:
    with pytest.raises(Retry, match="app 'orders' listens is not known: no address is set"):
        await way.deliver()


@pytest.mark.parametrize(
    ("job", "data", "says"),
    [
        ("", b"", "this is none"),
        ("shop/nightly", b"", "this is none"),
        ("dapr.orders/report", b"\xff", "no google.protobuf.Any"),
    ],
)
async def test_what_is_no_tick_of_an_application_s_never_can_be(way: Way, job: str, data: bytes, says: str) -> None:
    with pytest.raises(Fatal, match=says):
        await way.deliver(job, data)


def test_every_executor_has_the_lambda() -> None:
    mine = App("mine")

    @mine.task
    def nothing() -> None: ...

    found = with_builtins(mine.lambdas, ExecutorSettings())
    assert {"atf/dapr-job", "mine/nothing"} <= found.keys()
    assert found["atf/dapr-job"].is_async
    assert found["atf/dapr-job"].decode(b"x", 1) == {"data": b"x"}
