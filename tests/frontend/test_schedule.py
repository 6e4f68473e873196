"""What is stored: options from request, lambda and defaults, in this order; once per id; many calls in one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from atf.errors import AtfError, Unavailable
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.calls import LIMITS
from atf.task import US, Status

from .conftest import START_US, Bench, request


async def test_what_nobody_says_takes_the_systems_default(bench: Bench) -> None:
    task = await bench.stored(await bench.schedule())
    assert Status(task.status) is Status.NEW
    assert (task.priority, task.spec.options.max_attempts, task.spec.options.max_losses) == (1, 10, 3)
    assert (task.spec.options.timeout_us, task.spec.options.retention_us) == (0, 86_400 * US)
    backoff = task.spec.options.backoff
    assert (backoff.base_us, backoff.factor, backoff.max_us, backoff.jitter) == (US, 2, 600 * US, 0.1)


async def test_the_request_goes_before_the_lambda_and_the_lambda_before_the_defaults(bench: Bench) -> None:
    registered = t.TaskOptions(
        priority=2,
        max_attempts=5,
        timeout_us=7 * US,
        backoff=t.Backoff(base_us=3 * US, factor=3, max_us=9 * US, jitter=1),
    )
    await bench.register(options=registered)
    task = await bench.stored(
        await bench.schedule(options=t.TaskOptions(priority=0, timeout_us=0, backoff=t.Backoff(base_us=0, factor=1)))
    )
    options = task.spec.options
    assert (task.priority, options.priority, options.max_attempts, options.timeout_us) == (0, 0, 5, 0)
    assert options.max_losses == 3
    # a backoff is taken as a whole; of its fields only those that can't be 0 have defaults
    assert (options.backoff.base_us, options.backoff.factor, options.backoff.jitter) == (0, 1, 0)
    assert options.backoff.max_us == 600 * US


async def test_the_operators_cap_bounds_attempts(bench: Bench) -> None:
    frontend = bench.another_frontend(max_attempts_cap=4)
    reply = await frontend.schedule(request(options=t.TaskOptions(max_attempts=50)))
    assert (await bench.stored(reply.id)).spec.options.max_attempts == 4
    reply = await frontend.schedule(request())
    assert (await bench.stored(reply.id)).spec.options.max_attempts == 4


async def test_the_callers_message_is_left_as_it_was(bench: Bench) -> None:
    mine = request("a", payload=b"{}")
    before = mine.SerializeToString(deterministic=True)
    await bench.frontend.schedule(mine)
    assert mine.SerializeToString(deterministic=True) == before


async def test_the_same_request_again_finds_its_own_task(bench: Bench) -> None:
    first = await bench.frontend.schedule(request("a", delay_us=US, labels={"x": "1", "y": "2"}))
    bench.clock.advance(30)
    again = await bench.frontend.schedule(request("a", delay_us=US, labels={"y": "2", "x": "1"}))
    assert not first.existed
    assert again.existed
    assert (again.id, again.scheduled_at_us) == (first.id, first.scheduled_at_us)
    assert await bench.counts() == {"NEW": 1}
    (record,) = await bench.store.get_tasks([first.id])
    assert record is not None
    assert record.labels == "x=1 y=2"


async def test_how_safe_it_shall_be_does_not_make_it_another_request(bench: Bench) -> None:
    first = await bench.frontend.schedule(request("a"))
    again = await bench.frontend.schedule(request("a", durability=t.RELAXED))
    assert (again.existed, again.id, again.durability) == (True, first.id, t.RELAXED)


async def test_what_the_store_can_not_be_fails_by_itself_and_is_not_stored(bench: Bench) -> None:
    many = f.ScheduleManyRequest(
        requests=[request("a"), request("b", durability=t.REPLICATED), request("c", durability=9)]
    )
    reply = await bench.frontend.schedule_many(many)
    assert [each.error.code for each in reply.results] == ["", "FAILED_PRECONDITION", "INVALID_ARGUMENT"]
    assert reply.results[0].reply.durability == t.RELAXED
    assert await bench.counts() == {"NEW": 1}


async def test_a_partition_that_is_away_takes_no_task_of_another_along(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the one with the lambdas' records: what was read of them last will do."""
    await bench.schedule()
    direct = bench.store.link.call

    async def call(verb: str, record: str, *args: Any, **more: Any) -> Any:
        if record == "atf:{0}":
            raise Unavailable("it is away")
        return await direct(verb, record, *args, **more)

    monkeypatch.setattr(bench.store.link, "call", call)
    bench.clock.advance(60)
    here = next(each for each in (f"t{number}" for number in itertools.count()) if bench.store.partition_for(each))
    (away, *_) = of_one_partition(bench, 1)
    many = f.ScheduleManyRequest(requests=[request(away), request(here)])
    reply = await bench.frontend.schedule_many(many)
    assert [each.error.code for each in reply.results] == ["UNAVAILABLE", ""]
    assert await bench.schedule(here) == f"1-{here}"
    with pytest.raises(Unavailable):
        await bench.schedule(away)


async def test_a_changed_default_of_the_lambda_does_not_make_it_another_request(bench: Bench) -> None:
    await bench.schedule("a")
    await bench.register(options=t.TaskOptions(max_attempts=3))
    assert (await bench.frontend.schedule(request("a"))).existed


async def test_tasks_of_an_affinity_key_live_in_one_partition_and_any_other_key_goes_before(bench: Bench) -> None:
    ids = [await bench.schedule(name, affinity_key="cat") for name in "abcdef"]
    assert {each.partition("-")[0] for each in ids} == {str(bench.store.partition_for("cat"))}
    other = next(each for each in "abcdef" if bench.store.partition_for(each) != bench.store.partition_for("cat"))
    found = await bench.schedule("g", affinity_key="cat", ordering_key=other)
    assert found == f"{bench.store.partition_for(other)}-g"


async def test_without_an_id_the_frontend_makes_one(bench: Bench) -> None:
    ids = {await bench.schedule() for _ in range(20)}
    assert len(ids) == 20
    assert {each.partition("-")[0] for each in ids} == {"0", "1"}


async def test_tasks_of_one_ordering_key_share_a_partition(bench: Bench) -> None:
    ids = [await bench.schedule(ordering_key="customer-17") for _ in range(10)]
    assert len({each.partition("-")[0] for each in ids}) == 1
    await bench.enqueue()
    assert await bench.counts() == {"NEW": 9, "ENQUEUED": 1}


@pytest.mark.parametrize("at_us", [START_US - US, 1, -5])
async def test_an_instant_in_the_past_means_now(bench: Bench, at_us: int) -> None:
    reply = await bench.frontend.schedule(request("a", at_us=at_us))
    assert reply.scheduled_at_us == START_US
    await bench.enqueue()
    assert await bench.counts() == {"ENQUEUED": 1}


async def test_a_delay_becomes_an_instant_of_the_stores_clock(bench: Bench) -> None:
    reply = await bench.frontend.schedule(request("a", delay_us=5 * US))
    assert reply.scheduled_at_us == START_US + 5 * US
    bench.clock.advance(4.9)
    await bench.enqueue()
    assert await bench.counts() == {"NEW": 1}
    bench.clock.advance(0.1)
    await bench.enqueue()
    assert await bench.counts() == {"ENQUEUED": 1}


async def test_a_lambda_that_another_frontend_registered_is_known_at_once(bench: Bench) -> None:
    other = bench.another_frontend()
    await other.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="mail/send")]))
    assert await bench.schedule(name="mail/send")


async def test_options_that_another_frontend_registered_count_within_a_second(bench: Bench) -> None:
    await bench.schedule()
    options = t.TaskOptions(max_attempts=2)
    other = bench.another_frontend()
    await other.register_lambdas(
        f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="photos/thumbnail", options=options)])
    )
    bench.clock.advance(1.1)
    assert (await bench.stored(await bench.schedule())).spec.options.max_attempts == 2


@pytest.fixture(autouse=True)
def never_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may take longer for hundreds of calls than a call may take that others wait for."""
    monkeypatch.setattr("atf.store.calls.LIMITS", replace(LIMITS, late_s=3600.0))


FIELDS = 7
"""Arguments of one task without further fields in a call of `schedule`, behind the instant."""


class Gate:
    """Holds back a store's schedule calls, and counts the tasks of each."""

    def __init__(self, bench: Bench) -> None:
        self.batches: list[int] = []
        self.open = asyncio.Event()
        self.fail: Exception | None = None
        self._direct = bench.store.link.call
        bench.store.link.call = self._call  # type: ignore[method-assign, assignment]

    async def _call(self, verb: str, record: str, args: Sequence[Any], **more: Any) -> Any:
        if verb == "schedule":
            count, rest = divmod(len(args) - 1, FIELDS)
            assert rest == 0
            self.batches.append(count)
            await self.open.wait()
            if self.fail:
                raise self.fail
        return await self._direct(verb, record, args, **more)


def of_one_partition(bench: Bench, count: int) -> list[str]:
    """Task ids; calls of other partitions do not wait for each other."""
    ids = (f"t{number}" for number in itertools.count())
    return list(itertools.islice((each for each in ids if bench.store.partition_for(each) == 0), count))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_calls_that_come_while_one_is_under_way_leave_together(bench: Bench) -> None:
    await bench.schedule()  # the registry is fresh now
    gate = Gate(bench)
    first_id, *ids = of_one_partition(bench, 301)
    first = asyncio.create_task(bench.schedule(first_id))
    await settle()
    assert gate.batches == [1]  # at once: nothing was under way
    rest = [asyncio.create_task(bench.schedule(each)) for each in ids]
    await settle()
    assert gate.batches == [1]
    gate.open.set()
    await asyncio.gather(first, *rest)
    assert gate.batches == [1, 256, 44]
    assert await bench.counts() == {"NEW": 302}


async def test_calls_of_many_that_bring_one_task_each_leave_together(bench: Bench) -> None:
    """That is how clients schedule a single task."""
    await bench.schedule()
    gate = Gate(bench)
    requests = [request(each) for each in of_one_partition(bench, 6)]
    calls = [
        asyncio.create_task(bench.frontend.schedule_many(f.ScheduleManyRequest(requests=[each]))) for each in requests
    ]
    await settle()
    gate.open.set()
    assert [len((await each).results) for each in calls] == [1] * 6
    assert gate.batches == [6]
    assert await bench.counts() == {"NEW": 7}


async def test_nobody_waits_for_a_disk_that_another_caller_has_asked_for(bench: Bench) -> None:
    await bench.schedule()
    gate = Gate(bench)
    one, two = of_one_partition(bench, 2)
    slow = asyncio.create_task(bench.schedule(one, durability=t.DISK))
    await settle()
    quick = asyncio.create_task(bench.schedule(two))
    await settle()
    assert gate.batches == [1, 1], "both are under way"
    gate.open.set()
    assert await quick
    with contextlib.suppress(AtfError):  # fakeredis has no disk
        await slow


async def test_small_tasks_wait_for_no_call_of_large_ones_but_their_own(bench: Bench) -> None:
    await bench.schedule()
    gate = Gate(bench)
    ids = of_one_partition(bench, 8)
    calls = [asyncio.create_task(bench.schedule(each, payload=b"x" * 600_000)) for each in ids]
    await settle()
    gate.open.set()
    await asyncio.gather(*calls)
    assert gate.batches == [1] * 8, "two are more than one call of the store takes"


async def test_each_caller_of_a_batch_gets_its_own_answer(bench: Bench) -> None:
    await bench.schedule("b", payload=b"1")
    replies = await asyncio.gather(
        bench.schedule("a"), bench.schedule("b", payload=b"2"), bench.schedule("c"), return_exceptions=True
    )
    assert [type(reply).__name__ for reply in replies] == ["str", "AlreadyExists", "str"]


async def test_a_store_that_fails_fails_every_caller_of_the_batch_and_the_next_call_works(bench: Bench) -> None:
    await bench.schedule()
    gate = Gate(bench)
    gate.fail = Unavailable("the store is away")
    calls = [asyncio.create_task(bench.schedule(f"t{n}")) for n in range(3)]
    await settle()
    gate.open.set()
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(error) for error in errors] == ["the store is away"] * 3
    assert len({id(error) for error in errors}) == 3
    gate.fail = None
    assert await bench.schedule("t0")


async def test_a_caller_that_gives_up_takes_nobody_along(bench: Bench) -> None:
    await bench.schedule()
    gate = Gate(bench)
    first = asyncio.create_task(bench.schedule("a"))
    second = asyncio.create_task(bench.schedule("b"))
    await settle()
    first.cancel()
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second
    assert await bench.counts() == {"NEW": 3}


async def test_what_nobody_waits_for_any_more_is_not_kept_for_a_store_that_stalls(bench: Bench) -> None:
    await bench.schedule()
    gate = Gate(bench)
    calls = [asyncio.create_task(bench.schedule(each)) for each in of_one_partition(bench, 600)]
    await settle()
    for each in calls[:-1]:
        each.cancel()
    await settle()
    gate.open.set()
    assert await calls[-1]
    assert gate.batches == [256, 1], "the first one was under way"
