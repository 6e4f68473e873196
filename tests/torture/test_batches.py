"""The calls that stream, most of them about batches: bad texts, bad bytes and bad sizes in each message, and messages in no order that makes sense."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from atf.frontend.batch_intake import MAX_MESSAGE_ITEMS
from atf.frontend.batch_items import MAX_ARGUMENT_BYTES, MAX_ARGUMENTS
from atf.frontend.batches import MAX_EVERY_US, MIN_EVERY_US
from atf.frontend.new_batch import (
    MAX_CALLBACKS,
    MAX_CALLBACKS_IN_ALL,
    MAX_PAUSE_US,
    MAX_WORKERS,
)
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.sdk.work_items import MAX_ITEMS
from atf.task import MAX_CONCURRENCY, MAX_LABELS, MAX_PAYLOAD_BYTES

from . import wire
from .catalogue import STREAMED, Path, put, texts_of
from .texts import BOMBS, INVALID_UTF8, TEXTS
from .world import BATCH, INVALID, LAMBDA, LATE, NOT_FOUND, OK, PRECONDITION, TAKEN, Answer, World, full_batch, opened

METHODS = {
    f"Frontend.{each.name}": each
    for each in f.DESCRIPTOR.services_by_name["Frontend"].methods
    if each.client_streaming or each.server_streaming
}
ANSWERS = {OK, INVALID, NOT_FOUND, TAKEN, PRECONDITION, grpc.StatusCode.UNAVAILABLE}
"""The last: the stream broke off."""
MARK = "!!!"
WATCH = "Frontend.WatchBatch"
WATCHES: dict[str, Callable[[World], Message]] = {
    WATCH: lambda _: b.WatchBatchRequest(id=BATCH),
    "Frontend.WatchLog": lambda world: f.WatchLogRequest(id=world.new),
}
OURS: dict[str, Any] = {"lambda": LAMBDA}


async def sent(world: World, *messages: Message) -> Answer:
    return await world.stream(*(each.SerializeToString() for each in messages))


async def watched(world: World, request: bytes, timeout: float = 50.0, *, method: str = WATCH) -> Answer:
    """The first answer of a call that watches."""
    call = world.channel.unary_stream(f"/atf.v1.{method.replace('.', '/')}")(request, timeout=timeout)
    try:
        return Answer(OK, "", await call.read())
    except grpc.aio.AioRpcError as error:
        return Answer(error.code(), error.details() or "")
    finally:
        call.cancel()


def place_of(path: Path) -> int:
    """Which message of the stream has this field."""
    return 0 if path[0] == "header" else 1


async def spoiled(world: World, method: str, path: Path, text: str) -> Answer:
    if method in WATCHES:
        return await watched(world, put(WATCHES[method](world), path, text).SerializeToString(), method=method)
    messages: list[Any] = full_batch(world.fresh())
    place = place_of(path)
    messages[place] = put(messages[place], path, text)
    return await sent(world, *messages)


async def marked(world: World, method: str, path: Path, spoil: bytes) -> Answer:
    """A call with these bytes in the place of a text."""
    messages: list[Any] = [WATCHES[method](world)] if method in WATCHES else full_batch(world.fresh())
    place = place_of(path) if len(messages) > 1 else 0
    data = [each.SerializeToString() for each in messages]
    marks = put(messages[place], path, MARK).SerializeToString()
    assert marks.count(MARK.encode()) == 1
    data[place] = marks.replace(MARK.encode(), spoil)
    return await watched(world, data[0], method=method) if method in WATCHES else await world.stream(*data)


def test_every_method_that_streams_is_here_and_every_text_in_it_has_its_rule() -> None:
    assert METHODS.keys() == STREAMED.keys()
    for method, found in METHODS.items():
        assert set(STREAMED[method]) == set(dict(texts_of(found.input_type))), (
            "a new field needs its rule in catalogue.py"
        )


@pytest.mark.parametrize("method", METHODS)
async def test_a_text_is_taken_or_refused_by_its_rule(method: str) -> None:
    async with opened() as world:
        for path, rule in STREAMED[method].items():
            stored = path[0] == "items"  # the batch is made before its items come
            before = {} if stored else world.stored()
            refused = [kind for kind, text in TEXTS.items() if rule.code(text) is not OK]
            for kind in refused:
                answer = await spoiled(world, method, path, TEXTS[kind])
                said = f"{'.'.join(path)}, {kind}: {answer}"
                assert answer.code is rule.code(TEXTS[kind]), said
                assert rule.says in answer.sentence, said
                assert len(answer.sentence) > 20, said
                assert len(answer.sentence.encode()) <= 1_100, said
            assert stored or world.stored() == before, f"{'.'.join(path)}: one of {refused} was stored"
            for kind in TEXTS.keys() - refused:
                answer = await spoiled(world, method, path, TEXTS[kind])
                assert answer.code is OK, f"{'.'.join(path)}, {kind}: {answer}"


@pytest.mark.parametrize("method", METHODS)
async def test_a_text_that_is_no_utf8_is_refused(method: str) -> None:
    kind = METHODS[method].input_type
    async with opened() as world:
        for path, field in texts_of(kind):
            for spoil in INVALID_UTF8.values():
                answer = await marked(world, method, path, spoil)
                if field.type != FieldDescriptor.TYPE_BYTES:
                    assert answer.code is INVALID, path
                    assert f"{METHODS[method].name}: what was sent is no {kind.name}" in answer.sentence


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_what_is_no_message_or_no_sensible_one_does_no_harm(place: int) -> None:
    chance = random.Random(f"{wire.SEED} {place}")
    async with opened() as world:
        kind = METHODS["Frontend.ScheduleBatch"].input_type
        good = [each.SerializeToString() for each in full_batch(world.fresh())]
        bad = [*wire.broken(kind), *wire.odd(kind, good[place]), *wire.damaged(good[place], chance, wire.MORE or 12)]
        for each in bad:
            answer = await world.stream(*good[:place], each.data, *good[place + 1 :])
            assert answer.code in ANSWERS, (each.kind, answer)
        assert (await sent(world, *full_batch(world.fresh()))).code is OK


async def test_what_is_no_request_to_watch_or_no_sensible_one_does_no_harm() -> None:
    chance, count = random.Random(f"{wire.SEED} watch"), wire.MORE or 12
    kind, good = METHODS[WATCH].input_type, b.WatchBatchRequest(id=BATCH, at_most_every_us=MAX_EVERY_US)
    data = good.SerializeToString()
    async with opened() as world:
        before = world.stored()
        for each in (*wire.broken(kind), wire.Spoiled("a byte that is no tag", b"\xff")):
            answer = await watched(world, each.data)
            assert answer.code is INVALID, (each.kind, answer)
            assert "WatchBatch: what was sent is no WatchBatchRequest" in answer.sentence, each.kind
        for each in (*wire.odd(kind, data), *wire.random_bytes(chance, count), *wire.damaged(data, chance, count)):
            answer = await watched(world, each.data)
            assert answer.code in {OK, INVALID, NOT_FOUND}, (each.kind, answer)
            assert answer.code is OK or len(answer.sentence) > 20, (each.kind, answer)
        assert (await watched(world, data)).code is OK
        assert world.stored() == before


@pytest.mark.parametrize("places", [(), (1,), (2,), (1, 0, 2), (0, 0, 2), (0, 1), (0, 1, 1, 2), (2, 0, 1)])
async def test_messages_in_another_order_seal_no_batch(places: tuple[int, ...]) -> None:
    async with opened() as world:
        batch_id = world.fresh()
        messages = full_batch(batch_id)
        answer = await sent(world, *(messages[each] for each in places))
        assert answer.code in {INVALID, grpc.StatusCode.UNAVAILABLE}
        found = await world.ask("Frontend.GetBatch", b.GetBatchRequest(id=batch_id))
        assert found.code is NOT_FOUND or not b.Batch.FromString(found.reply).sealed


@pytest.mark.parametrize("kind", BOMBS)
async def test_arguments_that_are_built_to_do_harm_are_taken_or_refused(kind: str) -> None:
    async with opened() as world:
        messages = full_batch(world.fresh())
        del messages[1].items.items[0].arguments[:]
        messages[1].items.items[0].payload = BOMBS[kind]
        answer = await sent(world, *messages)
        assert answer.code in {OK, INVALID}, answer
        assert answer.code is OK or "item 0: payload" in answer.sentence


def spec_with(**fields: Any) -> Callable[[int], Any]:
    """The name of one field, and what it is for a number."""

    def made(number: int) -> b.ScheduleBatchRequest:
        spec = b.BatchSpec(**OURS, **{name: of(number) for name, of in fields.items()})
        return b.ScheduleBatchRequest(header=b.BatchHeader(spec=spec))

    return made


def items(count: int, **fields: Any) -> b.ScheduleBatchRequest:
    return b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(**fields)] * count))


def callbacks(number: int) -> list[b.Callback]:
    return [b.Callback(when=b.Callback.COMPLETION, task=t.TaskSpec(**OURS))] * number


def callback_with(**fields: Any) -> b.ScheduleBatchRequest:
    callback = b.Callback(**{"when": b.Callback.COMPLETION, "task": t.TaskSpec(**OURS), **fields})
    return b.ScheduleBatchRequest(header=b.BatchHeader(spec=b.BatchSpec(**OURS, callbacks=[callback])))


def callbacks_in_all(number: int) -> list[b.Callback]:
    """So many, of which as many as possible follow others."""
    first = callbacks(min(number, MAX_CALLBACKS))
    made = [b.Callback.FromString(each.SerializeToString()) for each in first]
    for following in range(number - len(made)):
        made[following % MAX_CALLBACKS].then.extend(callbacks(1))
    return made


HEADERS: dict[str, tuple[Callable[[int], Any], int, int, str]] = {
    "items in flight": (spec_with(max_in_flight=lambda n: n), 0, MAX_CONCURRENCY, "max_in_flight"),
    "a pause": (spec_with(pause_us=lambda n: n), 0, MAX_PAUSE_US, "pause_us"),
    "workers": (spec_with(workers=lambda n: n), 0, MAX_WORKERS, "workers"),
    "callbacks": (spec_with(callbacks=callbacks), 0, MAX_CALLBACKS, "callbacks"),
    "callbacks in all": (spec_with(callbacks=callbacks_in_all), 0, MAX_CALLBACKS_IN_ALL, "callbacks"),
    "a callback's when": (lambda n: callback_with(when=n), 1, 3, "when"),
    "what a callback gives": (lambda n: callback_with(gives=n), 0, 2, "gives"),
    "labels": (spec_with(labels=lambda n: {str(each): "" for each in range(n)}), 0, MAX_LABELS, "labels"),
    "a durability": (lambda n: b.ScheduleBatchRequest(header=b.BatchHeader(durability=n)), 0, 3, "durability"),  # type: ignore[arg-type]
    "an id": (lambda n: b.ScheduleBatchRequest(header=b.BatchHeader(id="x" * n)), 1, 20, "batch id"),
}


@pytest.mark.parametrize("what", HEADERS)
async def test_a_header_is_bounded(what: str) -> None:
    make, least, most, says = HEADERS[what]
    async with opened() as world:

        async def ask(number: int) -> Answer:
            header = b.BatchHeader(id=world.fresh(), spec=b.BatchSpec(**OURS))
            header.MergeFrom(make(number).header)
            if what == "an id":
                header.id = "x" * number
            return await sent(
                world, b.ScheduleBatchRequest(header=header), b.ScheduleBatchRequest(end=b.BatchEnd(items=0))
            )

        for number in (least, most):
            assert (await ask(number)).code is OK, number
        before = world.stored()
        for number in (least - 1, most + 1):
            if number >= 0 or what in {"items in flight", "a pause", "workers"}:
                answer = await ask(number)
                assert (answer.code, says in answer.sentence) == (INVALID, True), (number, answer)
        assert world.stored() == before


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        (LAMBDA, items(MAX_MESSAGE_ITEMS, payload=b"{}"), OK),
        (LAMBDA, items(MAX_MESSAGE_ITEMS + 1, payload=b"{}"), INVALID),
        (LAMBDA, items(1, payload=b'{"a":"%s"}' % (b"a" * (MAX_PAYLOAD_BYTES - 8))), OK),
        (LAMBDA, items(1, payload=b'{"a":"%s"}' % (b"a" * (MAX_PAYLOAD_BYTES - 7))), INVALID),
        ("atf/command", items(1, arguments=["a"] * MAX_ARGUMENTS), OK),
        ("atf/command", items(1, arguments=["a"] * (MAX_ARGUMENTS + 1)), INVALID),
        ("atf/command", items(1, arguments=["a", "b" * (MAX_ARGUMENT_BYTES - 1)]), OK),
        ("atf/command", items(1, arguments=["a", "b" * MAX_ARGUMENT_BYTES]), INVALID),
        ("atf/command", items(1, arguments=["a", "ä" * (MAX_ARGUMENT_BYTES // 2)]), INVALID),
    ],
)
async def test_items_are_bounded(name: str, message: b.ScheduleBatchRequest, code: grpc.StatusCode) -> None:
    async with opened() as world:
        await world.answer("Frontend.RegisterLambdas", f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=name)]))
        of: dict[str, Any] = {"lambda": name}
        spec = b.BatchSpec(**of)
        header = b.ScheduleBatchRequest(header=b.BatchHeader(id="b", spec=spec))
        end = b.ScheduleBatchRequest(end=b.BatchEnd(items=len(message.items.items)))
        assert (await sent(world, header, message, end)).code is code
        assert b.Batch.FromString((await world.ask("Frontend.GetBatch", b.GetBatchRequest(id="b"))).reply).items == (
            len(message.items.items) if code is OK else 0
        )


@pytest.mark.parametrize("number", [-(1 << 63), -1, MAX_ITEMS + 1, (1 << 63) - 1])
async def test_numbers_of_items_are_bounded(number: int) -> None:
    async with opened() as world:
        spec = b.BatchSpec(**OURS)
        header = b.ScheduleBatchRequest(header=b.BatchHeader(id="b", spec=spec, first=number))
        answer = await sent(world, header, items(1, payload=b"{}"))
        assert answer.code is INVALID
        assert f"first {number}: " in answer.sentence


@pytest.mark.parametrize(
    ("every_us", "code"),
    [(MIN_EVERY_US - 1, INVALID), (MIN_EVERY_US, OK), (MAX_EVERY_US, OK), (MAX_EVERY_US + 1, INVALID), (-1, INVALID)],
)
async def test_a_watcher_s_interval_is_bounded(every_us: int, code: grpc.StatusCode) -> None:
    async with opened() as world:
        request = b.WatchBatchRequest(id=BATCH, at_most_every_us=every_us)
        answer = await watched(world, request.SerializeToString())
        assert answer.code is code
        assert code is OK or "at_most_every_us" in answer.sentence
        assert LATE is not answer.code
