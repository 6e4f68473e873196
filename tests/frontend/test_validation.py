"""Bad input: each with a clear error, and nothing stored."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import AlreadyExists, InvalidArgument, UnknownLambda
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import MAX_AHEAD_US, MAX_PAYLOAD_BYTES, US

from .conftest import START_US, Bench, request

NAN, INF = float("nan"), float("inf")


def options(**fields: Any) -> dict[str, Any]:
    return {"options": t.TaskOptions(**fields)}


def backoff(**fields: Any) -> dict[str, Any]:
    return options(backoff=t.Backoff(**{"base_us": US, "factor": 2, "max_us": 600 * US, **fields}))


ODD: Any = 7
BAD = {
    "no lambda": ({"name": ""}, "write namespace/name"),
    "no namespace": ({"name": "thumbnail"}, "write namespace/name"),
    "two slashes": ({"name": "a/b/c"}, "write namespace/name"),
    "a space in a name": ({"name": "photos/thumb nail"}, "write namespace/name"),
    "a long name": ({"name": "photos/" + "x" * 65}, "write namespace/name"),
    "a trailing newline": ({"name": "photos/thumbnail\n"}, "write namespace/name"),
    "a slash in an id": ({"task_id": "a/b"}, "task id 'a/b': use 1 to 64"),
    "a long id": ({"task_id": "x" * 65}, "use 1 to 64"),
    "a huge id": ({"task_id": "x" * 2_000_000}, "use 1 to 64"),
    "a dot in an id": ({"task_id": "a.b"}, "use 1 to 64"),
    "priority too high": (options(priority=10), "priority 10: use 0"),
    "priority negative": (options(priority=-1), "priority -1: use 0"),
    "payload too large": ({"payload": b"x" * (MAX_PAYLOAD_BYTES + 1)}, "payload: 1048577 bytes, at most 1048576"),
    "encoding unknown": ({"encoding": 7}, "encoding 7: use JSON"),
    "no attempts": (options(max_attempts=0), "max_attempts 0: at least 1"),
    "no losses": (options(max_losses=0), "max_losses 0: at least 1"),
    "too many losses": (options(max_losses=101), "max_losses 101: at most 100"),
    "timeout negative": (options(timeout_us=-1), "timeout_us -1: at least 0"),
    "timeout absurd": (options(timeout_us=MAX_AHEAD_US + 1), "timeout_us .*: at most ten years"),
    "retention negative": (options(retention_us=-1), "retention_us -1: at least 0"),
    "retention absurd": (options(retention_us=1 << 62), "at most ten years"),
    "backoff factor NaN": (backoff(factor=NAN), "backoff.factor nan: use a finite number"),
    "backoff factor infinite": (backoff(factor=INF), "backoff.factor inf: use a finite number"),
    "backoff factor shrinks": (backoff(factor=0.5), "backoff.factor 0.5: use a finite number from 1"),
    "backoff jitter NaN": (backoff(jitter=NAN), "backoff.jitter nan: use a finite number"),
    "backoff jitter infinite": (backoff(jitter=-INF), "backoff.jitter -inf: use a finite number"),
    "backoff jitter over 1": (backoff(jitter=1.5), "backoff.jitter 1.5: use a finite number from 0 to 1"),
    "backoff base negative": (backoff(base_us=-1), "backoff.base_us -1: at least 0"),
    "backoff max absurd": (backoff(max_us=1 << 62), "backoff.max_us .*: at most ten years"),
    "ten years ahead": ({"at_us": START_US + MAX_AHEAD_US + 1}, "more than ten years ahead"),
    "an instant in nanoseconds": ({"at_us": START_US * 1000}, "is it in microseconds"),
    "delay negative": ({"delay_us": -1}, "delay_us -1: at least 0"),
    "delay absurd": ({"delay_us": MAX_AHEAD_US + 1}, "delay_us .*: at most ten years"),
    "too many labels": ({"labels": {str(n): "" for n in range(17)}}, "labels: 17 of them, at most 16"),
    "label without a name": ({"labels": {"": "x"}}, "a name has 1 to 64 characters"),
    "label name too long": ({"labels": {"x" * 65: ""}}, "a name has 1 to 64 characters"),
    "label value too long": ({"labels": {"x": "y" * 65}}, "a value at most 64"),
    "ordering key malformed": ({"ordering_key": "a\nb"}, "ordering_key 'a.nb': use 1 to 255"),
    "concurrency without a key": ({"concurrency": t.Concurrency(limit=2)}, "concurrency.key '': use 1 to 255"),
    "concurrency key malformed": ({"concurrency": t.Concurrency(key="a\nb")}, "concurrency.key 'a.nb': use 1 to 255"),
    "concurrency limit negative": (
        {"concurrency": t.Concurrency(key="a", limit=-1)},
        "concurrency.limit -1: at least 0",
    ),
    "concurrency limit absurd": (
        {"concurrency": t.Concurrency(key="a", limit=10_001)},
        "concurrency.limit 10001: at most 10000; 0 means 1",
    ),
    "concurrency policy unknown": (
        {"concurrency": t.Concurrency(key="a", policy=ODD)},
        "concurrency.policy 7: use QUEUE",
    ),
    "unique without a key": ({"unique": t.Unique(window_us=US)}, "unique.key '': use 1 to 255"),
    "unique without a window": ({"unique": t.Unique(key="a")}, "unique.window_us 0: at least 1000"),
    "unique window absurd": (
        {"unique": t.Unique(key="a", window_us=MAX_AHEAD_US + 1)},
        "unique.window_us .*: at most ten years",
    ),
    "unique policy unknown": (
        {"unique": t.Unique(key="a", window_us=US, policy=ODD)},
        "unique.policy 7: use THROTTLE",
    ),
    "keys that fall apart": (
        {"ordering_key": "customer-17", "concurrency": t.Concurrency(key="customer-18")},
        "ordering_key 'customer-17' and concurrency.key 'customer-18' belong to different partitions",
    ),
    "ordering key too long": ({"ordering_key": "x" * 256}, "ordering_key .*: use 1 to 255"),
}


@pytest.mark.parametrize("case", BAD)
async def test_bad_input_is_refused_and_nothing_is_stored(bench: Bench, case: str) -> None:
    fields, message = BAD[case]
    bad = request(**{"task_id": "a", **fields})
    with pytest.raises(InvalidArgument, match=message) as caught:
        await bench.frontend.schedule(bad)
    assert len(str(caught.value)) < 1_000
    assert await bench.counts() == {}
    # within a batch the same request fails by itself
    reply = await bench.frontend.schedule_many(f.ScheduleManyRequest(requests=[request("good"), bad]))
    assert reply.results[0].reply.id
    assert reply.results[1].error.code == "INVALID_ARGUMENT"
    assert reply.results[1].error.reason == "InvalidArgument"
    assert reply.results[1].error.message == str(caught.value)
    assert await bench.counts() == {"NEW": 1}


GOOD: dict[str, dict[str, Any]] = {
    "shortest names": {"task_id": "a"},
    "longest id": {"task_id": "x" * 64},
    "an id of digits and dashes": {"task_id": "-0-_"},
    "a full payload": {"payload": b"x" * MAX_PAYLOAD_BYTES, "encoding": t.RAW},
    "most urgent": options(priority=0),
    "least urgent": options(priority=9),
    "no jitter, no wait": backoff(base_us=0, jitter=0),
    "a delay of ten years": {"delay_us": MAX_AHEAD_US},
    "an instant in ten years": {"at_us": START_US + MAX_AHEAD_US},
    "an instant long ago": {"at_us": 1},
    "an instant before 1970": {"at_us": -(1 << 62)},
    "sixteen labels": {"labels": {"x" * 63 + chr(97 + n): "y" * 64 for n in range(16)}},
    "an ordering key": {"ordering_key": "customer-17.a_b"},
    "a concurrency key": {"concurrency": t.Concurrency(key="customer-17.a_b", limit=10_000, policy=t.Concurrency.SKIP)},
    "a unique key": {"unique": t.Unique(key="customer-17.a_b", window_us=1_000, policy=t.Unique.DEBOUNCE)},
    "an ordering key that is the concurrency key": {
        "ordering_key": "anna",
        "concurrency": t.Concurrency(key="anna"),
    },
}


@pytest.mark.parametrize("case", GOOD)
async def test_input_at_the_edge_of_its_rule_is_taken(bench: Bench, case: str) -> None:
    await bench.frontend.schedule(request(**{"task_id": "a", **GOOD[case]}))
    assert await bench.counts() == {"NEW": 1}


async def test_an_unknown_lambda_is_refused_with_the_nearest_names(bench: Bench) -> None:
    await bench.register("photos/thumbnails-large")
    await bench.register("mail/send")
    with pytest.raises(
        UnknownLambda, match=r"no lambda 'photos/thumbnial' .* Did you mean photos/thumbnail or"
    ) as caught:
        await bench.schedule(name="photos/thumbnial")
    assert "mail/send" not in str(caught.value)
    with pytest.raises(UnknownLambda, match="atf lambda lists"):
        await bench.schedule(name="zzz/qqq")
    assert await bench.counts() == {}


async def test_the_same_id_with_another_body_is_refused_and_the_first_stays(bench: Bench) -> None:
    stored = await bench.schedule("a", payload=b"1")
    with pytest.raises(AlreadyExists, match="task id 'a' is taken by another request"):
        await bench.schedule("a", payload=b"2")
    reply = await bench.frontend.schedule_many(f.ScheduleManyRequest(requests=[request("a", delay_us=5)]))
    assert reply.results[0].error.code == "ALREADY_EXISTS"
    assert (await bench.stored(stored)).spec.payload == b"1"


async def test_more_than_a_thousand_requests_at_once_are_refused(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="1001 requests: at most 1000"):
        await bench.frontend.schedule_many(f.ScheduleManyRequest(requests=[request()] * 1001))
    reply = await bench.frontend.schedule_many(f.ScheduleManyRequest(requests=[request()] * 1000))
    assert all(result.reply.id for result in reply.results)
    assert await bench.counts() == {"NEW": 1000}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (f.LambdaSpec(name="thumbnail"), "write namespace/name"),
        (f.LambdaSpec(name="a/b", options=t.TaskOptions(max_attempts=0)), "lambda a/b: max_attempts 0"),
        (f.LambdaSpec(name="a/b", options=t.TaskOptions(backoff=t.Backoff(factor=NAN))), "lambda a/b: backoff.factor"),
        (f.LambdaSpec(name="a/b", queue_limit=-1), "lambda a/b: queue_limit -1"),
        (f.LambdaSpec(name="a/b", enqueue_timeout_us=1), "lambda a/b: enqueue_timeout 1 µs: at least 100 ms"),
        (f.LambdaSpec(name="a/b", signature="x" * 2001), "lambda a/b: signature"),
    ],
)
async def test_a_bad_lambda_is_refused_with_all_that_came_with_it(
    bench: Bench, spec: f.LambdaSpec, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        await bench.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="fine/one"), spec]))
    assert set(await bench.store.list_lambdas()) == {"photos/thumbnail"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("get_task", "give the id that scheduling answered with"),
        ("explain_task", "give the id that scheduling answered with"),
    ],
)
@pytest.mark.parametrize("task_id", ["", "a", "x-1", "1-", "1-a/b", "123456-a", "1-" + "a" * 65])
async def test_a_malformed_id_is_refused(bench: Bench, call: str, message: str, task_id: str) -> None:
    kind = {"get_task": f.GetTaskRequest, "explain_task": f.ExplainTaskRequest}[call]
    with pytest.raises(InvalidArgument, match=message):
        await getattr(bench.frontend, call)(kind(id=task_id))


async def test_an_id_of_a_partition_that_is_not_there_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="there is no partition 2; the store has 2"):
        await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=["0-a", "2-a"]))


async def test_more_ids_than_a_batch_are_refused(bench: Bench) -> None:
    ids = [f"0-{n}" for n in range(257)]
    with pytest.raises(InvalidArgument, match="257 ids: at most 256"):
        await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=ids))
    with pytest.raises(InvalidArgument, match="257 ids: at most 256"):
        await bench.frontend.retry_tasks(f.RetryTasksRequest(ids=ids))
    with pytest.raises(InvalidArgument, match="257 ids: at most 256"):
        await bench.frontend.wait_tasks(f.WaitTasksRequest(ids=ids))
