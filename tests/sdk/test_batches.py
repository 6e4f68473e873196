from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest

import atf
from atf.client import submit
from atf.rpc import batch_pb2 as b
from atf.sdk.batch import link_id
from atf.sdk.context import InBatch
from tests.sdk.fake_batches import FakeBatches, World, batch_world, doubled, faked_batches
from tests.virtual import virtual

app = atf.App("photos")


@app.task
def thumbnail(path: str, size: int = 256) -> list[Any]:
    return [path, path]


@app.task
def album(parts: list[Any], title: str, *, batch: dict[str, Any] | None = None) -> int:
    return len(parts)


@app.task
def report(batch: dict[str, Any], channel: str = "ops") -> None: ...


@app.task
def sweep() -> None: ...


@app.task
def raw(data: bytes) -> bytes:
    return data


@app.task(name="other")
def other_lambda(part: int) -> int:
    return part


def payloads(frontend: FakeBatches, batch_id: str) -> list[bytes]:
    return [each.payload for each in frontend.batches[batch_id].items]


# --- what elements become ---------------------------------------------------------------------------------------------


@virtual(batch_world)
async def test_an_element_is_arguments_by_position_by_name_or_the_only_one(w: World) -> None:
    batch = await w.client.batch(thumbnail, ["a", ("b", 3), {"size": 4, "path": "c"}])
    assert payloads(w.frontend, batch.id) == [b'{"path":"a"}', b'{"path":"b","size":3}', b'{"path":"c","size":4}']


@virtual(batch_world)
async def test_items_go_in_messages_of_a_size_and_the_batch_is_closed_at_the_end(w: World) -> None:
    batch = await w.client.batch(thumbnail, (str(each) for each in range(25)), batch_size=10)
    assert w.frontend.sizes == [10, 10, 5]
    assert [(each.first, each.keep_open) for each in w.frontend.headers] == [(0, False)]
    assert w.frontend.batches[batch.id].sealed


@virtual(batch_world)
async def test_a_batch_of_any_size_is_cut_into_legs_which_are_sent_in_order(w: World) -> None:
    taken = 0

    def many() -> Iterator[str]:
        nonlocal taken
        for taken in range(100):
            assert taken - len(w.frontend.batches.get("b", FakeKept).items) <= 2 * 16 * 2, "memory holds two chunks"
            yield str(taken)

    await w.client.batch(thumbnail, many(), batch_size=2, batch_id="b")
    assert [(each.first, each.keep_open) for each in w.frontend.headers] == [
        (0, True), (32, True), (64, True), (96, False),
    ]  # fmt: skip
    assert len(w.frontend.batches["b"].items) == 100


class FakeKept:
    items: tuple[()] = ()


@virtual(batch_world)
async def test_large_items_make_smaller_messages(w: World) -> None:
    await w.client.batch(thumbnail, ["x" * (submit.MESSAGE_BYTES // 3)] * 7)
    assert w.frontend.sizes == [4, 3] or w.frontend.sizes == [3, 3, 1]


@virtual(batch_world)
async def test_a_batch_may_be_empty_and_elements_may_come_asynchronously(w: World) -> None:
    async def three() -> AsyncIterator[str]:
        for each in "abc":
            yield each

    empty, some = await w.client.batch(thumbnail, []), await w.client.batch(thumbnail, three())
    assert (await empty.progress_async()).status is atf.BatchStatus.DONE
    assert (await some.progress_async()).items == 3
    again = await w.client.batch(thumbnail, three(), batch_id=some.id, keep_open=False)
    assert again.id == some.id


async def asynchronously(elements: str, pause: float = 0) -> AsyncIterator[str]:
    for each in elements:
        yield each
        await asyncio.sleep(pause)


@virtual(batch_world)
async def test_elements_that_came_are_stored_while_the_next_one_is_waited_for(w: World) -> None:
    made = w.runtime.spawn(w.client.batch(thumbnail, asynchronously("abc", 60), batch_id="b"), name="batch")
    for count in (1, 2, 3):
        await asyncio.sleep(30)
        assert len(payloads(w.frontend, "b")) == count
        assert not w.frontend.batches["b"].sealed
        await asyncio.sleep(30)
    await made
    await asyncio.sleep(1)
    assert w.frontend.batches["b"].sealed


@virtual(batch_world)
async def test_elements_that_come_slowly_may_fail_or_be_given_up(w: World) -> None:
    async def broken() -> AsyncIterator[str]:
        yield "a"
        await asyncio.sleep(60)
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead") as raised:
        await w.client.batch(thumbnail, broken(), batch_id="b")
    assert "batch_id='b'" in raised.value.__notes__[0]
    given_up = w.runtime.spawn(w.client.batch(thumbnail, asynchronously("abc", 60), batch_id="c"), name="batch")
    await asyncio.sleep(90)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert len(payloads(w.frontend, "c")) == 2


@virtual(batch_world)
async def test_a_generator_may_hold_a_task_group_or_a_timeout_across_its_yields(w: World) -> None:
    async def fails() -> None:
        await asyncio.sleep(10)
        raise OSError("the line is dead")

    async def grouped(count: int) -> AsyncIterator[str]:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            for each in range(count):
                yield str(each)
            await asyncio.Event().wait()

    async def timed(count: int) -> AsyncIterator[str]:
        async with asyncio.timeout(10):
            for each in range(count):
                yield str(each)
            await asyncio.Event().wait()

    for count in (1, submit.CHUNK_MESSAGES + 1, 5 * submit.CHUNK_MESSAGES):
        async with asyncio.timeout(60):
            with pytest.raises(ExceptionGroup) as raised:
                await w.client.batch(thumbnail, grouped(count), batch_size=1, batch_id=f"g{count}")
            assert str(raised.value.exceptions[0]) == "the line is dead"
            with pytest.raises(TimeoutError) as late:
                await w.client.batch(thumbnail, timed(count), batch_size=1, batch_id=f"t{count}")
        assert f"batch_id='t{count}'" in late.value.__notes__[0]
        assert len(payloads(w.frontend, f"g{count}")) == len(payloads(w.frontend, f"t{count}")) == count


@virtual(batch_world)
async def test_a_generator_is_told_of_a_timeout_that_came_while_a_leg_was_sent(w: World) -> None:
    whole = w.frontend.schedule_batch

    async def slowly(requests: AsyncIterator[b.ScheduleBatchRequest], *, timeout: float = 10) -> b.ScheduleBatchReply:
        await asyncio.sleep(5)
        return await whole(requests, timeout=timeout)

    async def timed() -> AsyncIterator[str]:
        try:
            async with asyncio.timeout(2):
                for each in range(2 * submit.CHUNK_MESSAGES + 2):
                    yield str(each)
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(1)
            yield "the end"

    w.frontend.schedule_batch = slowly  # type: ignore[method-assign]
    async with asyncio.timeout(1000):
        await w.client.batch(thumbnail, timed(), batch_size=1, batch_id="b")
    assert len(payloads(w.frontend, "b")) == 2 * submit.CHUNK_MESSAGES + 3
    assert w.frontend.batches["b"].sealed


@virtual(batch_world)
async def test_a_generator_that_is_not_read_to_its_end_is_closed_in_the_task_that_read_it(w: World) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    async def grouped(last: Any) -> AsyncIterator[Any]:
        tasks.append(asyncio.current_task())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(3600))
                for each in range(submit.CHUNK_MESSAGES + 1):
                    yield str(each)
                yield last
                await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            tasks.append(asyncio.current_task())

    for _ in range(2):  # the second one passes over what is stored
        with pytest.raises(atf.InvalidArgument, match="item 17, 7"):
            await w.client.batch(thumbnail, grouped(7), batch_size=1, batch_id="b")
    given_up = w.runtime.spawn(w.client.batch(thumbnail, grouped("17"), batch_size=1, batch_id="c"), name="batch")
    await asyncio.sleep(5)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert len(tasks) == 6
    assert tasks[::2] == tasks[1::2]


@virtual(batch_world)
async def test_an_error_says_how_to_go_on_only_where_the_same_call_does(w: World) -> None:
    errors = {
        atf.UnknownLambda("no lambda"): False,
        atf.InvalidArgument("spec: too large"): False,
        atf.InvalidArgument("item 3: too large"): True,
        atf.ResourceExhausted("full"): True,
    }
    for error, goes_on in errors.items():

        async def fails(requests: object, *, timeout: float = 10, error: atf.AtfError = error) -> b.ScheduleBatchReply:
            raise error

        w.frontend.schedule_batch = fails  # type: ignore[method-assign]
        with pytest.raises(atf.AtfError) as raised:
            await w.client.batch(thumbnail, ["a"], batch_id="n")
        assert hasattr(raised.value, "__notes__") is goes_on, error


@virtual(batch_world)
async def test_an_item_that_does_not_fit_is_named_and_those_before_it_are_kept(w: World) -> None:
    items: list[Any] = [*map(str, range(7)), 7, "8"]
    with pytest.raises(atf.InvalidArgument, match=r"item 7, 7: photos/thumbnail\(\): argument 'path'") as raised:
        await w.client.batch(thumbnail, items, batch_id="b")
    assert "batch_id='b'" in raised.value.__notes__[0]
    assert not w.frontend.batches["b"].sealed
    items[7] = "7"
    await w.client.batch(thumbnail, items, batch_id="b")
    assert [each.first for each in w.frontend.headers] == [0, 7]
    assert payloads(w.frontend, "b") == [f'{{"path":"{each}"}}'.encode() for each in range(9)]
    assert w.frontend.batches["b"].sealed


@virtual(batch_world)
async def test_an_iterable_that_fails_leaves_the_batch_open_with_what_it_gave(w: World) -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await w.client.batch(thumbnail, broken(), batch_id="b")
    assert (len(w.frontend.batches["b"].items), w.frontend.batches["b"].sealed) == (1, False)


@virtual(batch_world)
async def test_a_call_that_breaks_off_is_made_again_and_nothing_is_doubled(w: World) -> None:
    w.frontend.failures.append(atf.Unavailable("it restarts"))
    batch = await w.client.batch(thumbnail, map(str, range(5)), batch_size=2)
    assert (await batch.progress_async()).items == 5
    assert len(w.frontend.headers) == 2


@virtual(batch_world)
async def test_a_leg_that_was_long_under_way_is_sent_again_and_a_frontend_that_stays_away_is_told(w: World) -> None:
    whole, tries = w.frontend.schedule_batch, 0

    async def breaks(requests: AsyncIterator[b.ScheduleBatchRequest], *, timeout: float = 10) -> b.ScheduleBatchReply:
        nonlocal tries
        tries += 1
        if tries == 2:
            return await whole(requests, timeout=timeout)
        await asyncio.sleep(60 if tries == 1 else 0)
        raise atf.Unavailable("it restarts")

    w.frontend.schedule_batch = breaks  # type: ignore[method-assign]
    await w.client.batch(thumbnail, ["a"])
    begun = w.runtime.monotonic()
    with pytest.raises(atf.Unavailable):
        await w.client.batch(thumbnail, ["a"])
    assert w.runtime.monotonic() - begun < 11


@virtual(batch_world)
async def test_legs_that_always_break_off_late_are_not_sent_for_ever(w: World) -> None:
    """As through a proxy that ends each try itself, before a frontend that stands still."""
    tries = 0

    async def breaks(requests: AsyncIterator[b.ScheduleBatchRequest], *, timeout: float = 10) -> b.ScheduleBatchReply:
        nonlocal tries
        del requests, timeout
        tries += 1
        await asyncio.sleep(60)
        raise atf.Unavailable("upstream request timeout")

    w.frontend.schedule_batch = breaks  # type: ignore[method-assign]
    with pytest.raises(atf.Unavailable):
        await w.client.batch(thumbnail, ["a"])
    assert tries <= 3


@virtual(batch_world)
async def test_the_same_call_on_a_closed_batch_adds_nothing_and_other_items_are_refused(w: World) -> None:
    for _ in range(2):
        await w.client.batch(thumbnail, ["a", "b"], batch_id="b")
    assert len(w.frontend.batches["b"].items) == 2
    with pytest.raises(atf.FailedPrecondition, match="was made of 2 items, and more were given") as raised:
        await w.client.batch(thumbnail, ["a", "b", "c"], batch_id="b")
    assert not hasattr(raised.value, "__notes__"), "the same call does not go on"
    others: list[Iterator[str] | AsyncIterator[str]] = [
        iter("abc"),
        iter("a"),
        asynchronously("abc"),
        asynchronously("a"),
    ]
    for items in others:
        with pytest.raises(atf.FailedPrecondition, match=r"was made of 2 items, and (more|only 1) were"):
            await w.client.batch(thumbnail, items, batch_id="b")
    await w.client.batch_handle("b", of=thumbnail).extend_async(["x"])
    await w.client.batch(thumbnail, ["a", "b"], batch_id="b")
    assert len(w.frontend.batches["b"].items) == 3
    with pytest.raises(atf.AlreadyExists, match="described otherwise"):
        await w.client.batch(thumbnail, ["a", "b"], batch_id="b", max_attempts=2)


@virtual(batch_world)
async def test_a_batch_that_was_kept_open_stays_so_when_it_is_extended_and_is_closed_by_itself(w: World) -> None:
    batch = await w.client.batch(thumbnail, ["a", "b"], keep_open=True)
    await batch.extend_async(["c"])
    assert not w.frontend.batches[batch.id].sealed, "its maker may be at work"
    assert (await batch.close_async()).sealed
    assert (w.frontend.headers[-1].first, w.frontend.headers[-1].extend) == (2, False)
    assert not w.frontend.headers[-1].HasField("spec")
    calls = len(w.frontend.headers)
    assert (await w.client.batch_handle(batch.id).close_async()).items == 3
    assert len(w.frontend.headers) == calls, "there is nothing to say"


@virtual(batch_world)
async def test_a_batch_that_broke_off_is_closed_at_what_is_stored_by_close_or_by_fewer_items(w: World) -> None:
    for name in ("b", "c"):
        with pytest.raises(atf.InvalidArgument, match="item 2, 7"):
            await w.client.batch(thumbnail, ["a", "b", 7], batch_id=name)
    assert (await w.client.batch_handle("b").close_async()).sealed
    await w.client.batch(thumbnail, ["a"], batch_id="c")
    for name in ("b", "c"):
        assert (len(w.frontend.batches[name].items), w.frontend.batches[name].sealed) == (2, True)
        with pytest.raises(atf.FailedPrecondition, match="was made of 2 items, and more were given"):
            await w.client.batch(thumbnail, ["a", "b", "c"], batch_id=name)


@virtual(batch_world)
async def test_who_extends_a_batch_with_a_pause_says_the_target(w: World) -> None:
    batch = await w.client.batch(thumbnail, [("a", 1)], pause=1, target="path")
    await batch.extend_async(["b"])
    await w.client.batch_handle(batch.id, thumbnail, target="size").extend_async([("c", 3)])
    await w.client.batch_handle(batch.id, thumbnail).extend_async(["d"], target=lambda path: path * 2)
    await w.client.batch_handle(batch.id, thumbnail.name).extend_async([{"path": "e"}], target="path")
    assert [each.chunk for each in w.frontend.batches[batch.id].items] == ["a", "b", "3", "dd", "e"]
    for bad in ("nose", 3):
        with pytest.raises(atf.InvalidArgument, match="target="):
            await batch.extend_async(["f"], target=cast("Any", bad))
    programs = await w.client.batch("atf/command", [["ls"]])
    await programs.extend_async([["curl", "x"]], target=lambda words: words[1])
    assert w.frontend.batches[programs.id].items[1].chunk == "x"


@virtual(batch_world)
async def test_command_lines_are_lists_of_texts(w: World) -> None:
    batch = await w.client.batch("atf/command", [["echo", "a b"], ("ls", "-l")])
    assert [list(each.arguments) for each in w.frontend.batches[batch.id].items] == [["echo", "a b"], ["ls", "-l"]]
    item = await batch.item_of_async("echo", "a b")
    assert item.number == 0
    assert item.arguments == ("echo", "a b")
    for bad, says in (("echo hi", "no shell reads it"), (["echo", 3], "made of texts"), ([], "the program first")):
        with pytest.raises(atf.InvalidArgument, match=f"item 0.*{says}"):
            await w.client.batch("atf/command", [bad])


@virtual(batch_world)
async def test_of_a_lambda_known_by_name_arguments_are_given_by_name(w: World) -> None:
    batch = await w.client.batch("photos/thumbnail", [{"path": "a"}])
    assert payloads(w.frontend, batch.id) == [b'{"path":"a"}']
    assert (await batch.item_of_async(path="a")).number == 0
    with pytest.raises(atf.InvalidArgument, match=r"item 0, 'a': .* the name alone is known; give arguments by name"):
        await w.client.batch("photos/thumbnail", ["a"])


# --- options ----------------------------------------------------------------------------------------------------------


@virtual(batch_world)
async def test_options_describe_the_batch(w: World) -> None:
    batch = await w.client.batch(
        thumbnail.options(priority="high", labels={"team": "web"}), [("a", 1), ("b:80/x", 2)],
        max_attempts=3, retention=60, labels={"run": "7"}, pause=0.5, target="path", max_in_flight=2,
        durability="disk", keep_open=True,
    )  # fmt: skip
    (header,) = w.frontend.headers
    spec = header.spec
    assert (spec.options.priority, spec.options.max_attempts, spec.options.retention_us) == (0, 3, 60_000_000)
    assert dict(spec.labels) == {"team": "web", "run": "7"}
    assert (spec.pause_us, spec.max_in_flight) == (500_000, 2)
    assert header.keep_open
    targets = [each.chunk for each in w.frontend.batches[batch.id].items]
    assert targets[0] == "a"
    assert len(targets[1]) == 32, "what is no name travels as its digest"


@virtual(batch_world)
async def test_a_target_may_be_made_of_the_element_or_be_a_default(w: World) -> None:
    made = await w.client.batch(thumbnail, ["a.x", "b.x"], pause=1, target=lambda path: path.partition(".")[0])
    default = await w.client.batch(thumbnail, ["a"], pause=1, target="size")
    assert [each.chunk for each in w.frontend.batches[made.id].items] == ["a", "b"]
    assert [each.chunk for each in w.frontend.batches[default.id].items] == ["256"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 2, "max_in_flight": 2}, "give one"),
        ({"workers": 1001}, "from 1 to 1000"),
        ({"pause": 1}, "between what"),
        ({"target": "nose"}, "no such argument; it has path, size"),
        ({"target": 3}, "give an argument's name"),
        ({"batch_size": 0}, "from 1 to 1000"),
        ({"batch_id": "a/b"}, "batch id 'a/b'"),
        ({"on_success": 3}, "give a lambda"),
        ({"on_success": [sweep] * 9}, "at most 8"),
        ({"on_failure": raw}, "takes raw bytes"),
        ({"on_complete": sweep.options(delay=3)}, "of single tasks"),
    ],
)
def test_options_that_break_a_rule_are_refused_with_a_sentence(options: Any, says: str) -> None:
    @virtual(batch_world)
    async def story(w: World) -> None:
        with pytest.raises((atf.InvalidArgument, TypeError), match=says):
            await w.client.batch(thumbnail, ["a"], **options)
        assert not w.frontend.headers

    story()


@virtual(batch_world)
async def test_what_only_a_single_task_can_have_is_refused(w: World) -> None:
    for options, says in (
        ({"key": "k"}, "of single tasks"),
        ({"ordering_key": "k"}, "ordering_key=….*items of a batch have none"),
    ):
        with pytest.raises(atf.InvalidArgument, match=says):
            await w.client.batch(thumbnail.options(**options), ["a"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="raw bytes"):
        await w.client.batch(raw, [b"x"])
    with pytest.raises(TypeError, match="no option 'max_atempts'"):
        await w.client.batch(thumbnail, ["a"], max_atempts=3)  # type: ignore[call-overload]


@virtual(batch_world)
async def test_a_callback_is_given_the_summary_where_it_has_a_parameter_for_it(w: World) -> None:
    await w.client.batch(
        thumbnail, ["a"], on_success=report.s(channel="x"), on_failure=[report, sweep], on_complete="a/b"
    )
    seen = [(each.when, each.gives, each.parameter, each.task.payload) for each in w.frontend.headers[0].spec.callbacks]
    summary, nothing = b.Callback.SUMMARY, b.Callback.NOTHING
    assert seen == [
        (b.Callback.SUCCESS_OF_ALL, summary, "batch", b'{"channel":"x"}'),
        (b.Callback.ANY_FAILURE, summary, "batch", b"{}"),
        (b.Callback.ANY_FAILURE, nothing, "", b"{}"),
        (b.Callback.COMPLETION, summary, "", b"{}"),
    ]
    with pytest.raises(TypeError, match=r"on_success: photos/album\(\): missing a required argument: 'parts'"):
        await w.client.batch(thumbnail, ["a"], on_success=album)


# --- the handle -------------------------------------------------------------------------------------------------------


@virtual(batch_world)
async def test_results_come_in_order_each_as_soon_as_it_is_there(w: World) -> None:
    batch = await w.client.batch(thumbnail, map(str, range(7)))

    async def finish() -> None:
        for number in (1, 0, 2, 6, 5, 4, 3):
            await asyncio.sleep(1)
            w.frontend.finish(batch.id, number, b"[%d]" % number)

    w.runtime.spawn(finish(), name="finish")
    begun = w.runtime.monotonic()
    seen = [(result, round(w.runtime.monotonic() - begun)) async for result in batch.results_async()]
    assert seen == [([0], 2), ([1], 2), ([2], 3), ([3], 7), ([4], 7), ([5], 7), ([6], 7)]


@virtual(batch_world)
async def test_results_of_a_batch_that_is_still_being_made_wait_for_its_items(w: World) -> None:
    w.frontend.run = doubled
    batch = await w.client.batch(thumbnail, ["a"], keep_open=True)
    results = batch.results_async(timeout=60)
    assert await anext(results) == ["a", "a"]

    async def more() -> None:
        await batch.extend_async(["b"])
        await asyncio.sleep(1)
        await batch.close_async()

    extending = w.runtime.spawn(more(), name="extend")
    assert [each async for each in results] == [["b", "b"]]
    await extending


@virtual(batch_world)
async def test_results_that_do_not_come_in_time(w: World) -> None:
    waiting = await w.client.batch(thumbnail, ["a"])
    missing = await w.client.batch(thumbnail, [], keep_open=True)
    for batch, says in ((waiting, "item 0 .* has not ended in time"), (missing, "item 0 .* was not there in time")):
        begun = w.runtime.monotonic()
        with pytest.raises(TimeoutError, match=says):
            [each async for each in batch.results_async(timeout=5)]
        assert 5 <= w.runtime.monotonic() - begun < 6


def fails(item: b.Item) -> None:
    doubled(item)
    if item.number == 1:
        item.status, item.error = b.ITEM_PERMANENTLY_FAILED, "ValueError: no such file"
    if item.number == 2:
        item.status = b.ITEM_CANCELLED


@virtual(batch_world)
async def test_a_failure_is_raised_yielded_or_skipped(w: World) -> None:
    w.frontend.run = fails
    batch = await w.client.batch(thumbnail, "abcd")
    results = batch.results_async()
    assert await anext(results) == ["a", "a"]
    with pytest.raises(atf.TaskFailed, match=f"item 1 of batch {batch.id}: ValueError: no such file"):
        await anext(results)
    assert [each async for each in batch.results_async(failed="skip")] == [["a", "a"], ["d", "d"]]
    mixed: list[Any] = [each async for each in batch.results_async(failed="yield")]
    assert [type(each) for each in mixed] == [list, atf.TaskFailed, atf.TaskCancelled, list]
    with pytest.raises(atf.InvalidArgument, match="use 'raise', 'yield' or 'skip'"):
        [each async for each in batch.results_async(failed="what")]  # type: ignore[arg-type]


@virtual(batch_world)
async def test_items_and_failures_are_listed_by_status(w: World) -> None:
    w.frontend.run = fails
    batch = await w.client.batch(thumbnail, "abcd")
    failures = [each async for each in batch.failures_async(arguments=True)]
    assert [(each.number, each.status, each.error) for each in failures] == [
        (1, atf.ItemStatus.PERMANENTLY_FAILED, "ValueError: no such file"),
        (2, atf.ItemStatus.CANCELLED, ""),
    ]
    assert failures[0].payload == {"path": "b"}
    assert w.frontend.asked[-1].with_arguments
    assert [each.number async for each in batch.items_async("done")] == [0, 3]
    assert [each.number async for each in batch.items_async(["done", atf.ItemStatus.CANCELLED])] == [0, 2, 3]
    assert len([each async for each in batch.items_async()]) == 4
    with pytest.raises(atf.InvalidArgument, match="item status 'finished': use created, in_progress, done"):
        await anext(batch.items_async("finished"))


@virtual(batch_world)
async def test_a_result_is_found_by_its_arguments(w: World) -> None:
    batch = await w.client.batch(thumbnail, ["a", ("a", 3), "a"])

    async def finish() -> None:
        await asyncio.sleep(1)
        w.frontend.finish(batch.id, 1, b"[3]")

    w.runtime.spawn(finish(), name="finish")
    assert await batch.result_of_async("a", size=3) == [3]
    assert (await batch.item_of_async("a")).number == 0
    with pytest.raises(atf.NotFound, match="has no item"):
        await batch.result_of_async("z")
    elsewhere = w.client.batch_handle(batch.id, of=thumbnail)
    assert await elsewhere.result_of_async("a", 3) == [3]
    with pytest.raises(TypeError, match="of which lambda"):
        await w.client.batch_handle(batch.id).item_of_async("a")


@virtual(batch_world)
async def test_progress_tells_fraction_rate_and_the_time_to_go(w: World) -> None:
    batch = await w.client.batch(thumbnail, map(str, range(10)))
    for number in range(4):
        w.frontend.finish(batch.id, number, b"[]")
    progress = await batch.progress_async()
    assert (progress.items, progress.done, progress.created, progress.finished) == (10, 4, 6, 4)
    assert (progress.fraction, progress.rate, progress.seconds_to_go) == (0.4, 2.0, 3.0), (
        "4 in the 2 s since it was made"
    )
    assert progress.created_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert not progress.ended


@virtual(batch_world)
async def test_waiting_and_watching_end_with_the_batch(w: World) -> None:
    batch = await w.client.batch(thumbnail, ["a", "b"])
    with pytest.raises(TimeoutError, match=f"batch {batch.id} has not ended within 3 s; 2 of 2 items are left"):
        await batch.wait_async(timeout=3)

    async def finish() -> None:
        for number in range(2):
            await asyncio.sleep(1)
            w.frontend.finish(batch.id, number, b"[]")

    w.runtime.spawn(finish(), name="finish")
    assert [each.done async for each in batch.watch_async()] == [0, 1, 2]
    assert (await batch.wait_async()).status is atf.BatchStatus.DONE


@virtual(batch_world)
async def test_a_stream_that_breaks_off_is_asked_for_again(w: World) -> None:
    batch = await w.client.batch(thumbnail, ["a"])
    whole, broken = w.frontend.watch_batch, [atf.Unavailable("it restarts")]

    async def breaks(request: b.WatchBatchRequest, *, timeout: float = 10) -> AsyncIterator[b.Batch]:
        if broken:
            raise broken.pop()
        w.frontend.finish(batch.id, 0, b"[]")
        async for each in whole(request, timeout=timeout):
            yield each

    w.frontend.watch_batch = breaks  # type: ignore[method-assign,assignment]
    assert (await batch.wait_async(timeout=3)).ended


@virtual(batch_world)
async def test_commands_to_a_batch(w: World) -> None:
    w.frontend.run = fails
    batch = await w.client.batch(thumbnail, "abcd")
    assert (await batch.retry_async()).created == 1
    assert (await batch.cancel_async()).status is atf.BatchStatus.CANCELLED
    with pytest.raises(atf.FailedPrecondition, match="was cancelled"):
        await batch.extend_async(["e"])
    assert [each.id for each in await w.client.batches()] == [batch.id]
    assert (await batch.delete_async(), await batch.delete_async()) == (True, False)
    with pytest.raises(atf.NotFound):
        await batch.progress_async()


@virtual(batch_world)
async def test_an_extension_with_a_request_id_is_made_once(w: World) -> None:
    batch = await w.client.batch(thumbnail, ["a"])
    for _ in range(2):
        await batch.extend_async(["b", "c"], request_id="r")
    assert payloads(w.frontend, batch.id) == [b'{"path":"a"}', b'{"path":"b"}', b'{"path":"c"}']
    assert (await batch.extend_async(["d"])).items == 4


# --- the blocking face ------------------------------------------------------------------------------------------------


def test_a_lambda_maps_by_itself_and_its_handle_blocks() -> None:
    frontend = FakeBatches(run=fails)
    with atf.Client(frontend=faked_batches(frontend)) as client, atf.use_client(client):
        batch = thumbnail.map((each for each in "abcd"), batch_id="b")
        assert batch.progress().done == 2
        assert batch.wait(timeout=5).ended
        assert list(batch.results(failed="skip")) == [["a", "a"], ["d", "d"]]
        assert [each.number for each in batch.failures()] == [1, 2]
        assert [each.number for each in batch.items("done")] == [0, 3]
        assert [each.done for each in batch.watch()] == [2]
        assert batch.result_of("a") == ["a", "a"]
        assert thumbnail.map("abcd", batch_id="b").id == "b"
        assert app.batch("thumbnail", ["x"]).result_of("x") == ["x", "x"]
        assert client.batch_handle("b").cancel().status is atf.BatchStatus.DONE_WITH_FAILURES or batch.cancel()
        assert len(client.batches(limit=1)) == 1


def test_a_chain_of_a_step_alone_gives_its_result() -> None:
    with atf.Client(frontend=faked_batches(FakeBatches(run=doubled))) as client:
        assert thumbnail.s("a").submit(client).result(timeout=5) == ["a", "a"]


def test_a_blocking_batch_keeps_what_came_before_a_bad_item_too() -> None:
    frontend = FakeBatches()
    with (
        atf.Client(frontend=faked_batches(frontend)) as client,
        pytest.raises(atf.InvalidArgument, match="item 40, 40"),
    ):
        client.batch(thumbnail, [*map(str, range(40)), 40], batch_id="b", batch_size=2)  # two chunks
    assert len(frontend.batches["b"].items) == 40


async def test_a_lambda_maps_by_itself_from_any_loop() -> None:
    frontend = FakeBatches(run=doubled)
    with atf.Client(frontend=faked_batches(frontend)) as client, atf.use_client(client):
        batch = await thumbnail.map_async(["a", "b"])
        assert [each async for each in batch.results_async()] == [["a", "a"], ["b", "b"]]
        assert [each.done async for each in batch.watch_async()] == [2]


async def test_an_app_makes_a_batch_from_any_loop_of_elements_that_come_asynchronously() -> None:
    async def paths() -> AsyncIterator[str]:
        for path in "ab":
            await asyncio.sleep(0)
            yield path

    frontend = FakeBatches(run=doubled)
    with atf.Client(frontend=faked_batches(frontend)) as client, atf.use_client(client):
        batch = await app.batch_async("thumbnail", paths(), batch_id="b")
        assert [each async for each in batch.results_async()] == [["a", "a"], ["b", "b"]]
        assert await batch.result_of_async("b") == ["b", "b"], "it knows the lambda's signature"
        assert (await app.batch_async(thumbnail.options(priority="low"), ["c"])).id in frontend.batches
        other = await app.batch_async("films/cut", [{"path": "d"}], batch_size=1)
        assert payloads(frontend, other.id) == [b'{"path":"d"}']


async def test_a_running_item_extends_its_batch_once_however_often_it_runs() -> None:
    frontend = FakeBatches(run=doubled)
    with atf.Client(frontend=faked_batches(frontend)) as client, atf.use_client(client):
        await thumbnail.map_async(["a"], batch_id="x", keep_open=True)
        for _ in range(2):
            run = InBatch("x", 0, "w", "0-x.w", thumbnail)
            await run.extend_async(["b"])
            await asyncio.to_thread(run.extend, [("c", 3)])
        assert payloads(frontend, "x") == [b'{"path":"a"}', b'{"path":"b"}', b'{"path":"c","size":3}']
        callback = InBatch("x", None, "", "0-x_0_1")
        with pytest.raises(TypeError, match="of which lambda"):
            await callback.extend_async(["d"])
        assert (await callback.extend_async(["d"], of=thumbnail)).items == 4
        assert callback.handle().id == "x"


# --- chains -----------------------------------------------------------------------------------------------------------


@virtual(batch_world)
async def test_a_chain_is_a_batch_with_the_rest_as_its_callback(w: World) -> None:
    chain = thumbnail.s("a") | album.s(title="Cats") | other_lambda.s()
    assert repr(chain) == "<Chain photos/thumbnail | photos/album | photos/other>"
    await w.client.chain(chain, batch_id="c")
    spec = w.frontend.headers[0].spec
    assert payloads(w.frontend, "c") == [b'{"path":"a"}']
    (first,) = spec.callbacks
    (second,) = first.then
    for each, parameter, payload in ((first, "parts", b'{"title":"Cats"}'), (second, "part", b"{}")):
        assert (each.when, each.gives, each.unwrap) == (b.Callback.SUCCESS_OF_ALL, b.Callback.RESULTS, True)
        assert (each.as_batch, each.parameter, each.task.payload) == (True, parameter, payload)
    assert not second.then


@virtual(batch_world)
async def test_what_fans_out_comes_in_as_a_list(w: World) -> None:
    await w.client.chain(thumbnail.map_s("abc", on_complete=sweep) | album.s("Cats"), batch_id="c")
    fan_in, after = w.frontend.headers[0].spec.callbacks
    assert (fan_in.gives, fan_in.unwrap, fan_in.task.payload) == (b.Callback.RESULTS, False, b'{"title":"Cats"}')
    assert getattr(after.task, "lambda") == "photos/sweep"
    assert len(w.frontend.batches["c"].items) == 3


def seven(item: b.Item) -> None:
    item.status, item.result = b.ITEM_DONE, b"7"


@virtual(batch_world)
async def test_a_chains_handle_waits_for_the_last_link(w: World) -> None:
    w.frontend.run = doubled
    handle = await w.client.chain(thumbnail.s("a") | album.s(title="Cats") | other_lambda.s(), batch_id="c")
    second = link_id("c", 0, 1)

    async def go_on() -> None:
        await asyncio.sleep(3)
        await w.client.batch(other_lambda, [1], batch_id=second)
        await asyncio.sleep(3)
        w.frontend.run = seven
        await w.client.batch(other_lambda, [1], batch_id=link_id(second, 0, 1))

    w.runtime.spawn(go_on(), name="go on")
    with pytest.raises(TimeoutError, match=f"batch {second}, the next of the chain"):
        await handle.result_async(timeout=1)
    assert await handle.result_async(timeout=60) == 7
    assert (await handle.wait_async()).id == link_id(second, 0, 1)


@virtual(batch_world)
async def test_a_link_that_can_not_be_made_ends_the_chain(w: World) -> None:
    w.frontend.run = doubled
    handle = await w.client.chain(thumbnail.s("a") | album.s(title="Cats"), batch_id="c")
    w.frontend.batches["c"].error = "callback 0, photos/album: the results take more than 1 MiB"
    with pytest.raises(atf.TaskFailed, match="next step can't be made: photos/album: the results take more"):
        await handle.result_async()
    w.frontend.batches["c"].error = "callback 1, ops/page: it has another reason, and holds up no chain"
    with pytest.raises(TimeoutError, match="the next of the chain"):
        await handle.result_async(timeout=5)


@virtual(batch_world)
async def test_a_chain_ends_at_the_link_that_fails(w: World) -> None:
    w.frontend.run = fails
    handle = await w.client.chain(thumbnail.map_s("abcd") | album.s("Cats"), batch_id="c")
    with pytest.raises(atf.TaskFailed, match="item 1 of batch c: ValueError"):
        await handle.result_async()
    assert (await handle.wait_async()).status is atf.BatchStatus.DONE_WITH_FAILURES


@virtual(batch_world)
async def test_of_a_chain_whose_map_failed_in_many_places_one_page_is_read(w: World) -> None:
    w.frontend.run = fails
    handle = await w.client.chain(thumbnail.map_s(map(str, range(50))) | album.s("Cats"), batch_id="c")
    with pytest.raises(atf.TaskFailed, match="item 1 of batch c: ValueError"):
        await handle.result_async()
    assert len(w.frontend.asked) == 1


@virtual(batch_world)
async def test_a_chain_of_a_map_alone_gives_the_list(w: World) -> None:
    w.frontend.run = doubled
    handle = await w.client.chain(thumbnail.map_s("ab"))
    assert await handle.result_async() == [["a", "a"], ["b", "b"]]


@virtual(batch_world)
async def test_cancelling_a_chain_cancels_the_link_that_has_not_ended(w: World) -> None:
    handle = await w.client.chain(thumbnail.s("a") | album.s("Cats"), batch_id="c")
    assert (await handle.cancel_async()).status is atf.BatchStatus.CANCELLED
    with pytest.raises(atf.TaskCancelled):
        await handle.result_async()


def test_what_can_not_be_chained_is_refused() -> None:
    with pytest.raises(TypeError, match="only a chain's beginning may be a chain or a map"):
        thumbnail.s("a") | album.map_s([1])  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"goes on with `lambda.s\(...\)`"):
        thumbnail.s("a") | album  # type: ignore[operator]
    spec = b.BatchSpec()
    with pytest.raises(TypeError, match="takes no argument, so it can't follow"):
        (thumbnail.s("a") | sweep.s()).add_links(spec)
    with pytest.raises(TypeError, match=r"chain: photos/album\(\): missing a required argument: 'title'"):
        (thumbnail.s("a") | album.s()).add_links(spec)


def test_a_chain_submits_itself() -> None:
    frontend = FakeBatches(run=doubled)
    with atf.Client(frontend=faked_batches(frontend)) as client, atf.use_client(client):
        assert (thumbnail.s("a") | album.s("Cats")).submit(batch_id="c").id == "c"
        assert thumbnail.s("a").submit().result(timeout=5) == ["a", "a"]
        assert thumbnail.map_s("a").submit(client).result(timeout=5) == [["a", "a"]]
