"""The trace context of a request: what is taken, what is refused, and that it makes no other request of it."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t
from tests.store.world import dump

from .conftest import Bench, request
from .test_batches import make

PARENT = f"00-{7:032x}-{8:016x}-00"


async def test_a_task_keeps_its_trace_and_when_it_came(bench: Bench) -> None:
    spec = (await bench.stored(await bench.schedule(traceparent=PARENT, tracestate="a=1,b=2"))).spec
    assert (spec.traceparent, spec.tracestate) == (PARENT, "a=1,b=2")
    assert spec.traced_at_us == bench.clock.now_us


async def test_a_request_of_no_trace_is_kept_without_a_word_of_it(bench: Bench) -> None:
    spec = (await bench.stored(await bench.schedule())).spec
    assert not {"traceparent", "tracestate", "traced_at_us"} & {field.name for field, _ in spec.ListFields()}


async def test_two_requests_that_differ_in_their_trace_alone_are_one(bench: Bench) -> None:
    first = await bench.frontend.schedule(request("a"))
    in_traces: list[dict[str, Any]] = [{"traceparent": PARENT}, {"traceparent": PARENT, "tracestate": "a=1"}]
    for fields in in_traces:
        again = await bench.frontend.schedule(request("a", **fields))
        assert (again.id, again.existed) == (first.id, True)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"traceparent": "x"}, "traceparent 'x'"),
        ({"traceparent": PARENT + "-more"}, "traceparent"),
        ({"traceparent": PARENT.upper().replace("0", "A")}, "traceparent"),
        ({"traceparent": f"00-{0:032x}-{8:016x}-00"}, "traceparent"),
        ({"traceparent": f"00-{7:032x}-{0:016x}-00"}, "traceparent"),
        ({"traceparent": "ff" + PARENT[2:]}, "traceparent"),
        ({"tracestate": "a=1"}, "tracestate without traceparent"),
        ({"traceparent": PARENT, "tracestate": "a" * 513}, "at most 512"),
        ({"traceparent": PARENT, "tracestate": "a=ä"}, "tracestate"),
        ({"traceparent": PARENT, "traced_at_us": 1}, "traced_at_us"),
    ],
)
async def test_what_is_no_trace_context_is_refused(bench: Bench, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        await bench.schedule(**fields)
    with pytest.raises(InvalidArgument, match=says):
        await make(bench, 1, spec=fields)


async def test_the_trace_of_a_batch_is_kept_once_and_given_with_every_claim(bench: Bench) -> None:
    await make(bench, 3, "traced", spec={"traceparent": PARENT, "tracestate": "a=1"})
    await make(bench, 1, "plain")
    records = (await dump(bench.store)).tasks()
    assert not [each for each in records.values() if PARENT in each["spec"]]
    found = {each.task_id: t.TaskSpec.FromString(each.spec) for each in await bench.claim(*records)}
    traced = [spec for task_id, spec in found.items() if "-traced." in task_id]
    assert [(each.traceparent, each.tracestate) for each in traced] == [(PARENT, "a=1")] * 3
    assert [each.traced_at_us for each in traced] == [bench.clock.now_us] * 3
    assert sorted(each.batch.number for each in traced) == [0, 1, 2]
    (plain,) = (spec for task_id, spec in found.items() if "-plain." in task_id)
    assert (plain.traceparent, plain.batch.id) == ("", "plain")
