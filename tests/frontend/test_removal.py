"""A lambda is forgotten where nobody runs it, nothing of it is unfinished and no job names it; hosts drain."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import FailedPrecondition, InvalidArgument, NotFound, UnknownLambda
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.job import job_spec
from atf.task import US
from tests.store_calls import call_function

from .conftest import Bench

NAME = "photos/thumbnail"


def request(**fields: Any) -> f.DeleteLambdaRequest:
    return f.DeleteLambdaRequest(**{"lambda": NAME, "who": "ada", **fields})


async def test_what_nobody_needs_is_forgotten_everywhere(bench: Bench) -> None:
    assert (await bench.frontend.delete_lambda(request())).deleted
    with pytest.raises(UnknownLambda):
        await bench.schedule("a")
    with pytest.raises(UnknownLambda):
        await bench.frontend.delete_lambda(request())
    for partition in range(2):
        with pytest.raises(KeyError):
            await _said_of(bench, partition)
    (entry, *_) = await bench.audit()
    assert (entry.what, getattr(entry, "lambda"), entry.who) == ("delete_lambda", NAME, "ada")
    await bench.register()
    await bench.stored(await bench.schedule("a"))


async def _said_of(bench: Bench, partition: int) -> Any:
    _, *names = await call_function(bench.store, "list_lambdas", partition, [""])
    return {each[0]: each for each in names}[NAME.encode()]


async def test_what_was_said_before_its_end_comes_too_late_after_it(bench: Bench) -> None:
    """An owed registration may be delivered twice; one that was made after the end is not undone by a late copy of the end."""
    await bench.frontend.delete_lambda(request())
    await bench.register()
    await call_function(bench.store, "apply_outbox", 1, ["1", "forget", NAME])
    assert await _said_of(bench, 1)


async def test_it_is_refused_while_live_workers_run_it(bench: Bench) -> None:
    await bench.store.serve("", 30, "one", {}, [NAME])
    with pytest.raises(FailedPrecondition, match="live workers run photos/thumbnail"):
        await bench.frontend.delete_lambda(request(cancel_waiting=True))
    bench.clock.advance(31)
    assert (await bench.frontend.delete_lambda(request())).deleted


async def test_it_is_refused_while_tasks_wait_unless_they_are_to_be_cancelled(bench: Bench) -> None:
    ids = [await bench.schedule(f"a{number}", delay_us=number * US) for number in range(5)]
    with pytest.raises(FailedPrecondition, match="5 tasks of photos/thumbnail wait: atf lambda rm photos/thumbnail --"):
        await bench.frontend.delete_lambda(request())
    looked = await bench.frontend.delete_lambda(request(cancel_waiting=True, dry_run=True))
    assert (looked.waiting, looked.cancelled, looked.deleted) == (5, 0, False)
    assert (await bench.frontend.delete_lambda(request(cancel_waiting=True))).cancelled == 5
    assert (await bench.frontend.delete_lambda(request(cancel_waiting=True))).deleted
    assert {(await bench.stored(each)).status for each in ids} == {t.CANCELLED}


async def test_it_is_refused_while_a_task_runs_or_a_job_names_it(bench: Bench) -> None:
    task = t.TaskSpec()
    setattr(task, "lambda", NAME)
    await bench.frontend.schedule_job(f.ScheduleJobRequest(job=job_spec("photos/nightly", task, "@daily", {})))
    with pytest.raises(FailedPrecondition, match="atf job rm photos/nightly deletes it"):
        await bench.frontend.delete_lambda(request())
    await bench.frontend.delete_job(f.DeleteJobRequest(name="photos/nightly"))
    await bench.claim(await bench.schedule("a"))
    with pytest.raises(FailedPrecondition, match="1 tasks of photos/thumbnail run"):
        await bench.frontend.delete_lambda(request(cancel_waiting=True))


async def test_a_host_drains_until_it_is_resumed_or_its_time_is_over(bench: Bench) -> None:
    async def drains() -> bool | None:
        return (await bench.store.serve("", 30, "one:7403", {}, [NAME], executors=2)).drains

    async def drain(**fields: Any) -> None:
        await bench.frontend.drain_host(f.DrainHostRequest(**{"host": "one:7403", "who": "ada", **fields}))

    async def host() -> f.WorkerHost:
        (found,) = (await bench.frontend.list_hosts(f.ListHostsRequest())).hosts
        return found

    assert await drains() is False
    await drain()
    assert await drains() is True
    assert ((await host()).draining, (await host()).drain_until_us, (await host()).executors) == (True, 0, 2)
    bench.clock.advance(86_400)
    assert await drains() is True, "whatever restarts meanwhile"
    await drain(resume=True)
    assert await drains() is False
    with pytest.raises(NotFound, match="the host 'one:7403' does not drain; atf host lists those that do"):
        await drain(resume=True)  # and was told to mean itself
    await drain(for_us=60 * US)
    assert await drains() is True
    bench.clock.advance(61)
    assert await drains() is False
    assert not (await host()).draining
    with pytest.raises(NotFound, match="no worker host 'one:7404' is alive"):
        await drain(host="one:7404")
    for fields, says in (
        ({"for_us": -1}, "more than 0 s"),
        ({"for_us": 0}, "for 0 s: use more than 0 s and at most ten years"),
        ({"resume": True, "for_us": 1}, "of no use"),
        ({"who": ""}, "who"),
    ):
        with pytest.raises(InvalidArgument, match=says):
            await drain(**fields)
