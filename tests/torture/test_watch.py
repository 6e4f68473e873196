"""Dapr's streams, WatchJobs and WatchHosts: bad texts, bad bytes and bad numbers in each message, and messages in no order that makes sense."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from atf.frontend.dapr.scheduler import SERVICE
from atf.rpc import dapr_scheduler_pb2 as ds

from . import wire
from .catalogue import WATCHED, Path, put, texts_of
from .texts import INVALID_UTF8, TEXTS
from .world import INVALID, OK, PATIENCE_S, SCHEDULER, Answer, World

METHODS = {
    f"Scheduler.{each.name}": each for each in SCHEDULER.methods if each.client_streaming or each.server_streaming
}
MARK = "!!!"
MOST: Final = (1 << 31) - 1


def initial(**fields: Any) -> ds.WatchJobsRequest:
    """The first message of a stream, with every field set."""
    limit = ds.ConcurrencyLimit(max_concurrent=3, name="n", actor=ds.ConcurrencyLimitActor(type="Cat"))
    full: dict[str, Any] = {
        "app_id": "billing",
        "namespace": "prod",
        "actor_types": ["Cat"],
        "accept_job_types": [ds.JOB_TARGET_TYPE_JOB, ds.JOB_TARGET_TYPE_ACTOR_REMINDER],
        "concurrency_limits": [limit],
    }
    return ds.WatchJobsRequest(initial=ds.WatchJobsRequestInitial(**{**full, **fields}))


def says(number: int = 7, status: Any = ds.SUCCESS) -> ds.WatchJobsRequest:
    """An acknowledgement of what this watcher was not given."""
    return ds.WatchJobsRequest(result=ds.WatchJobsRequestResult(id=number, status=status))


GOOD: Final = [initial(), says(), says(8, ds.FAILED)]


async def watched(world: World, *messages: Message | bytes, method: str = "WatchJobs") -> Answer:
    """What became of a stream whose watcher says no more than this; OK: it ended by itself."""

    async def each() -> AsyncIterator[bytes]:
        for message in messages:
            yield message if isinstance(message, bytes) else message.SerializeToString()

    call = world.channel.stream_stream(f"/{SERVICE}/{method}")(each(), timeout=PATIENCE_S)
    try:
        return Answer(OK, "", b"".join([reply async for reply in call]))
    except grpc.aio.AioRpcError as error:
        return Answer(error.code(), error.details() or "")


async def hosts(world: World, request: bytes) -> Answer:
    """The first reply of WatchHosts; the stream then stays open."""
    call = world.channel.unary_stream(f"/{SERVICE}/WatchHosts")(request, timeout=PATIENCE_S)
    try:
        return Answer(OK, "", await call.read())
    except grpc.aio.AioRpcError as error:
        return Answer(error.code(), error.details() or "")
    finally:
        call.cancel()


def test_every_stream_is_here_and_every_text_in_it_has_its_rule() -> None:
    assert METHODS.keys() == WATCHED.keys()
    for method, found in METHODS.items():
        assert set(WATCHED[method]) == set(dict(texts_of(found.input_type))), (
            "a new field needs its rule in catalogue.py"
        )


@pytest.mark.parametrize("path", WATCHED["Scheduler.WatchJobs"], ids=".".join)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_text_is_taken_or_refused_by_its_rule(path: Path, untouched: World) -> None:
    rule = WATCHED["Scheduler.WatchJobs"][path]
    for kind, text in TEXTS.items():
        answer = await watched(untouched, put(GOOD[0], path, text))
        said = f"{kind}: {answer}"
        assert answer.code is rule.code(text), said
        if answer.code is not OK:
            assert rule.says in answer.sentence, said
            assert 20 < len(answer.sentence) <= 1_100, said


@pytest.mark.parametrize("path", WATCHED["Scheduler.WatchJobs"], ids=".".join)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_text_that_is_no_utf8_is_refused(path: Path, untouched: World) -> None:
    for spoil in INVALID_UTF8.values():
        answer = await watched(untouched, put(GOOD[0], path, MARK).SerializeToString().replace(MARK.encode(), spoil))
        assert answer.code is INVALID
        assert "WatchJobs: what was sent is no WatchJobsRequest" in answer.sentence


@pytest.mark.parametrize("place", range(len(GOOD)))
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_message_or_no_sensible_one_does_no_harm(place: int, untouched: World) -> None:
    chance, count = random.Random(f"{wire.SEED} watch {place}"), wire.MORE or 12
    kind, good = METHODS["Scheduler.WatchJobs"].input_type, [each.SerializeToString() for each in GOOD]
    for each in wire.broken(kind):
        answer = await watched(
            untouched, *good[:place], each.data
        )  # a caller that writes on may miss why it was refused
        assert (answer.code, len(answer.sentence) > 20) == (INVALID, True), (each.kind, answer)
    odd = [*wire.odd(kind, good[place]), *wire.random_bytes(chance, count), *wire.damaged(good[place], chance, count)]
    for each in odd:
        answer = await watched(untouched, *good[:place], each.data)
        assert answer.code in {OK, INVALID}, (each.kind, answer)
    assert (await watched(untouched, *GOOD)).code is OK


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([], OK),
        ([ds.WatchJobsRequest()], INVALID),
        ([says()], INVALID),
        ([initial(), initial()], INVALID),
        ([initial(), ds.WatchJobsRequest()], INVALID),
        ([initial(), says((1 << 64) - 1), says(0, 77)], OK),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_messages_in_no_order_that_makes_sense_end_the_stream(
    messages: list[Message], code: grpc.StatusCode, untouched: World
) -> None:
    answer = await watched(untouched, *messages)
    assert (answer.code, len(answer.sentence) > 20) == (code, code is INVALID)


@pytest.mark.parametrize(("number", "code"), [(-(1 << 31), INVALID), (-1, INVALID), (0, OK), (1, OK), (MOST, OK)])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_limit_is_bounded(number: int, code: grpc.StatusCode, untouched: World) -> None:
    for limit in (
        ds.ConcurrencyLimit(max_concurrent=number),
        ds.ConcurrencyLimit(max_concurrent=number, actor=ds.ConcurrencyLimitActor(type="Cat")),
    ):
        answer = await watched(untouched, initial(concurrency_limits=[limit] * 100))
        assert answer.code is code
        assert code is OK or "max_concurrent" in answer.sentence


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_request_for_hosts_is_refused(untouched: World) -> None:
    kind = METHODS["Scheduler.WatchHosts"].input_type
    for each in wire.broken(kind):
        answer = await hosts(untouched, each.data)
        assert answer.code is INVALID, each.kind
        assert "WatchHosts: what was sent is no WatchHostsRequest" in answer.sentence
    chance = random.Random(f"{wire.SEED} hosts")
    for each in (*wire.odd(kind, b""), *wire.random_bytes(chance, wire.MORE or 12)):
        assert (await hosts(untouched, each.data)).code in {OK, INVALID}, each.kind
    assert ds.WatchHostsResponse.FromString((await hosts(untouched, b"")).reply).hosts == []
