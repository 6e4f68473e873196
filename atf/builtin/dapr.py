"""`atf/dapr-job`: brings a job's tick to the application that made the job, by the callback that Dapr's own sidecar would call.

    find     where the application listens, as the frontend is set now; remembered for ADDRESS_FRESH_S
    deliver  OnJobEvent, or that of older releases; OK and NOT_FOUND are a success
    fail     anything else fails the attempt, and the job's failure policy has the next word

What it keeps belongs to the event loop of its executor's coroutines, on which alone it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final

from atf.calls.retry import RetryPolicy, retry
from atf.config.dapr_names import DELIVER, split_job
from atf.config.settings import ExecutorSettings
from atf.errors import AtfError, DeadlineExceeded, Fatal, Retry, Unavailable
from atf.runtime import SystemRuntime
from atf.sdk.app import App
from atf.sdk.context import Context

if TYPE_CHECKING:  # an executor that delivers nothing loads no transport for it
    from atf.rpc.api import Frontend
    from atf.rpc.dapr_app import DaprApp
    from atf.rpc.dapr_runtime_pb2 import JobEventRequest

ANSWER_WITHIN_S: Final = 300.0
"""Seconds that an application has for a tick, where the task has no timeout of its own."""
ADDRESS_FRESH_S: Final = 3.0
"""Seconds for which an address is used without asking again."""
_ASK_WITHIN_S: Final = 5.0
ASK_AGAIN: Final = RetryPolicy(first=0.1, most=2.0)
_DELIVERED: Final = frozenset({"OK", "NOT_FOUND"})


def add_dapr_job(app: App, settings: ExecutorSettings) -> None:
    """Adds the lambda to the app of the built-in ones."""
    deliveries = JobEventSender(lambda: _frontend_at(settings.frontend))

    @app.task(name=DELIVER.partition("/")[2])
    async def dapr_job(ctx: Context, data: bytes = b"") -> None:
        await deliveries.deliver(ctx, data)


class _AppAddress:
    """Where an application was when the frontend was asked last."""

    def __init__(self) -> None:
        self.app: DaprApp | None = None
        self.asked_at = float("-inf")
        self.asking = asyncio.Lock()


class JobEventSender:
    """The way to the applications.

    Args:
        frontend: opens the way to whom to ask where they are; called once, when somebody asks first.
    """

    def __init__(self, frontend: Callable[[], Frontend]) -> None:
        self._frontend = cache(frontend)
        self._places: dict[str, _AppAddress] = {}

    async def deliver(self, ctx: Context, data: bytes) -> None:
        """Tells an application of a tick.

        Args:
            ctx: of the tick's task.
            data: an Any, as bytes.

        Raises:
            Fatal: this is no tick of an application's job.
            Retry: the application was not found, or did not take it; after the wait of the job's failure policy.
        """
        app_id, event = _event(ctx.job, data)
        left_s = ANSWER_WITHIN_S
        if ctx.deadline is not None:
            left_s = (ctx.deadline - datetime.now(UTC)).total_seconds()  # noqa: TID251  as any lambda has to
        until = loop_time() + left_s
        app = await self._find(app_id, until)
        answer = await app.on_job_event(event, max(until - loop_time(), 0))
        if answer.code in _DELIVERED:
            return
        self._places[app_id].asked_at = float("-inf")  # it may have moved
        raise Retry(
            f"the app {app_id!r} at {app.address} answered {answer.code}: {answer.sentence or 'no more was said'}"
        )

    async def _find(self, app_id: str, until: float) -> DaprApp:
        """The connection to an application; one for all ticks, as long as it stays where it is."""
        from atf.rpc.dapr_app import DaprApp

        place = self._places.setdefault(app_id, _AppAddress())
        async with place.asking:  # the others use what the first has found
            if place.app is None or loop_time() - place.asked_at >= ADDRESS_FRESH_S:
                address = await self._ask(app_id, place.app, until)
                if place.app is None or place.app.address != address:
                    # Calls that run end at the old one, which is closed with the last of them.
                    place.app = DaprApp(address)
                place.asked_at = loop_time()
        return place.app

    async def _ask(self, app_id: str, known: DaprApp | None, until: float) -> str:
        """The address; the one before where no frontend can be asked: that it is away is not the application's failure."""
        from atf.rpc.frontend_pb2 import FindDaprAppRequest

        request = FindDaprAppRequest(app_id=app_id)

        async def ask() -> str:
            return (await self._frontend().find_dapr_app(request, timeout=_ASK_WITHIN_S)).address

        def failed(error: Exception) -> None:
            if known is not None or loop_time() >= until:
                raise error

        try:
            return await retry(ask, ASK_AGAIN, SystemRuntime(), failed=failed)
        except (Unavailable, DeadlineExceeded) as error:
            if known is not None:
                return known.address
            raise Retry(f"where the app {app_id!r} listens could not be asked: {error}") from None
        except AtfError as error:
            raise Retry(f"where the app {app_id!r} listens is not known: {error}") from None


def _frontend_at(address: str) -> Frontend:
    from atf.rpc.channel import open_channel
    from atf.rpc.stubs import FrontendStub

    return FrontendStub(open_channel(address))


def _event(job: str, data: bytes) -> tuple[str, JobEventRequest]:
    """Whom to tell, and what."""
    from google.protobuf.any_pb2 import Any as AnyMessage
    from google.protobuf.message import DecodeError

    from atf.rpc.dapr_runtime_pb2 import HTTPExtension, JobEventRequest

    found = split_job(job)
    if found is None:
        raise Fatal(f"{DELIVER} delivers the ticks of jobs that apps made through Dapr's API; this is none")
    app_id, name = found
    try:
        sent = AnyMessage.FromString(data)
    except DecodeError as error:
        raise Fatal(f"what the job {job} carries is no google.protobuf.Any: {error}") from None
    event = JobEventRequest(
        name=name,
        data=sent,
        method=f"job/{name}",
        content_type=sent.type_url,
        http_extension=HTTPExtension(verb=HTTPExtension.POST),
    )
    return app_id, event


def loop_time() -> float:
    """Seconds by the clock of the loop."""
    return asyncio.get_running_loop().time()
