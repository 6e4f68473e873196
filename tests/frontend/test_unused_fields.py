"""What a request says and the frontend would not use: refused by its name, since services in other languages call it, too."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message

from atf.errors import AlreadyExists, InvalidArgument
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.store_consumer.callbacks import EndedBatch, item_of, link_of, spec_of, task_of
from atf.task import US
from tests.store.world import dump

from .conftest import Bench
from .test_batches import ended, get, header, items, make, stream
from .test_jobs import job, make as make_job

OF: dict[str, Any] = {"lambda": "photos/thumbnail"}
SPEC: dict[str, Any] = {
    "lambda": "photos/album", "payload": b'{"a":1}', "encoding": t.RAW, "options": t.TaskOptions(priority=7), "labels": {"team": "web"},
    "ordering_key": "b", "tick": t.TickInfo(job="a/b"), "concurrency": t.Concurrency(key="b"), "unique": t.Unique(key="b", window_us=US),
    "affinity_key": "b", "batch": t.BatchInfo(id="b"),
    "traceparent": f"00-{1:032x}-{1:016x}-01", "tracestate": "a=1", "traced_at_us": 9,
}  # fmt: skip
OPTIONS: dict[str, Any] = {
    "priority": 7, "max_attempts": 2, "max_losses": 1, "timeout_us": 9, "backoff": t.Backoff(base_us=9), "retention_us": 9,
}  # fmt: skip
"""A value of every field of a task, other than what it is without."""
ALL = [*((name, {name: value}) for name, value in SPEC.items()), *((name, {"options": t.TaskOptions(**{name: value})}) for name, value in OPTIONS.items())]  # fmt: skip
every_field = pytest.mark.parametrize(("name", "fields"), ALL, ids=[name for name, _ in ALL])


def test_every_field_of_a_task_is_tried() -> None:
    assert {*SPEC} == {each.name for each in t.TaskSpec.DESCRIPTOR.fields}
    assert {*OPTIONS} == {each.name for each in t.TaskOptions.DESCRIPTOR.fields}


@every_field
async def test_a_field_of_a_jobs_task_reaches_its_ticks_or_is_refused(
    bench: Bench, name: str, fields: dict[str, Any]
) -> None:
    await bench.register("photos/album")
    refused, without, made = "", await make_job(bench, job("photos/before")), None
    try:
        made = await make_job(bench, job(task=fields))
    except InvalidArgument as error:
        refused = str(error)
    assert name in refused if made is None else made.spec.task != without.spec.task
    honoured = {
        "lambda",
        "payload",
        "encoding",
        "labels",
        "options",
        "priority",
        "max_losses",
        "timeout_us",
        "retention_us",
    }
    assert (made is not None) == (name in honoured)


@every_field
async def test_a_field_of_a_callback_reaches_its_task_or_is_refused(
    bench: Bench, name: str, fields: dict[str, Any]
) -> None:
    await bench.register("photos/album")
    task = t.TaskSpec(**{"lambda": "photos/thumbnail", **fields})
    for as_batch in (False, True):
        callback = b.Callback(when=b.Callback.COMPLETION, task=task, gives=b.Callback.NOTHING, as_batch=as_batch)
        batch_id = f"with-{as_batch}"
        refused = ""
        try:
            await make(bench, 1, batch_id, spec={"callbacks": [callback]})
        except InvalidArgument as error:
            refused = str(error)
        if refused:
            assert name in refused
            keys = {"ordering_key", "concurrency", "unique"}
            assert name in keys | {"tick", "batch", "traceparent", "tracestate", "traced_at_us"}
            continue
        kept = (await get(bench, batch_id, with_spec=True)).spec.callbacks[0]
        assert _becomes(kept) != _becomes(
            b.Callback(when=kept.when, task=_plain(kept), gives=kept.gives, as_batch=as_batch)
        )


def _plain(_kept: b.Callback) -> t.TaskSpec:
    plain = t.TaskSpec(
        options=t.TaskOptions(priority=1, max_attempts=10, max_losses=3, retention_us=86_400 * US, timeout_us=0)
    )
    plain.options.backoff.CopyFrom(t.Backoff(base_us=US, factor=2, max_us=600 * US, jitter=0.1))
    setattr(plain, "lambda", "photos/thumbnail")
    return plain


def _becomes(callback: b.Callback) -> Any:
    """All that the store gets of it: the task, or the item of its batch and that batch."""
    batch: Any = type("Batch", (), {"id": "b", "cancel_requested": False})()
    of = EndedBatch(batch, 1, 2, 1, 1, 0, 0)
    if not callback.as_batch:
        return task_of(of, 0, spec_of(callback, None), 2)
    link = link_of(of, 0, callback)
    return link, item_of(link, spec_of(callback, None))


async def test_an_affinity_key_reaches_the_records_of_items(bench: Bench) -> None:
    await make(bench, 2, "a", spec={"affinity_key": "cat"})
    await make(bench, 2, "w", spec={"workers": 2})
    records = (await dump(bench.store)).tasks().values()
    assert sorted(each["af"] for each in records) == ["cat", "cat", "w.0", "w.1"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"base_at_us": 5}, "base_at_us: only the frontend sets it"),
        (
            {"failure_policy": j.FailurePolicy(drop=True, max_retries=3)},
            "failure_policy.drop.*leave interval_us and max_retries out",
        ),
        (
            {"failure_policy": j.FailurePolicy(drop=True, interval_us=3)},
            "failure_policy.drop.*leave interval_us and max_retries out",
        ),
        ({"tz": "Europe/Paris"}, "tz: only a cron expression has one; leave tz out"),
        ({"gap": "skip"}, "gap: only a cron expression has one"),
        ({"fold": "both"}, "fold: only a cron expression has one"),
        ({"format": "unix"}, "format: only a cron expression has one"),
        ({"schedule": None, "due_time": "1h", "tz": "Europe/Paris"}, "tz: only a cron expression has one"),
        ({"schedule": None, "due_time": "1h", "ttl": "2h"}, "leave ttl out"),
        ({"schedule": None, "due_time": "1h", "repeats": 2}, "repeats"),
    ],
)
async def test_a_field_that_a_job_would_not_use_is_refused(bench: Bench, spec: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        await make_job(bench, job(**{"schedule": "@every 10s", **spec}))


async def test_anew_without_overwrite_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="anew: it says how overwrite replaces a job"):
        await make_job(bench, anew=True)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([header(request_id="r"), items(0)], "request_id: only an extension has one"),
        ([header(described=False, extend=True, first=3), items(0)], "leave first and keep_open out"),
        ([header(described=False, extend=True, keep_open=True), items(0)], "leave first and keep_open out"),
        ([header(), items(0, target="host")], "item 0: target 'host': the batch has no pause"),
        ([header(spec={"workers": 2, "max_in_flight": 2}), items(0)], "leave max_in_flight out"),
        (
            [header(spec={"callbacks": [b.Callback(when=b.Callback.COMPLETION, task=t.TaskSpec(**OF), gives=b.Callback.NOTHING, parameter="x")]}), items(0)],
            "parameter 'x': it is given NOTHING; leave it out",
        ),
    ],
)  # fmt: skip
async def test_a_field_that_a_batch_would_not_use_is_refused(bench: Bench, messages: list[Any], says: str) -> None:
    if messages[0].header.extend:
        await make(bench, 1)
    with pytest.raises(InvalidArgument, match=says):
        await bench.frontend.schedule_batch(stream(*messages, ended(1)))


async def test_an_extension_may_say_what_the_batch_is_and_is_held_to_it(bench: Bench) -> None:
    await make(bench, 1)
    with pytest.raises(AlreadyExists, match="another description"):
        await bench.frontend.schedule_batch(
            stream(header(extend=True, spec={"labels": {"a": "b"}}), items(0), ended(1))
        )


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (b.ListBatchItemsRequest(id="a", first=3, page_token="5"), "first and page_token: give one of them"),
        (b.ListBatchItemsRequest(id="a", work_item_id="0" * 32, first=3), "leave statuses, first and page_token out"),
        (b.ListBatchItemsRequest(id="a", work_item_id="0" * 32, statuses=[b.ITEM_DONE]), "leave statuses, first and page_token out"),
        (f.ListKeysRequest(**OF, key="a", page_token="0.1.a"), "key and page_token: give one of them"),
        (f.ListConcurrencyKeysRequest(**OF, key="a", page_token="0.1.a"), "key and page_token: give one of them"),
        (f.SetGateRequest(**OF, action=f.Gate.PAUSE, share=0.5, who="a"), "share"),
        (f.SetGateRequest(**OF, action=f.Gate.PAUSE, delay_us=5, who="a"), "delay_us"),
        (f.SetCapacityRequest(pool="default", cores=0, lookahead=3), "lookahead"),
    ],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
async def test_a_field_that_a_question_would_not_use_is_refused(bench: Bench, request_: Message, says: str) -> None:
    calls: dict[type, Any] = {
        b.ListBatchItemsRequest: bench.frontend.list_batch_items, f.ListKeysRequest: bench.frontend.list_keys,
        f.ListConcurrencyKeysRequest: bench.frontend.list_concurrency_keys, f.SetGateRequest: bench.frontend.set_gate,
        f.SetCapacityRequest: bench.frontend.set_capacity,
    }  # fmt: skip
    with pytest.raises(InvalidArgument, match=says):
        await calls[type(request_)](request_)
