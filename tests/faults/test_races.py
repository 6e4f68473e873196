"""Two who want different things of one task at the same time: each order has its outcome, and none loses the task."""

from __future__ import annotations

import asyncio

from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import Status

from .world import World, hopeless, of, play, returns_a_set, step


def test_cancel_against_claim() -> None:
    """Cancelled while it stands in its queue: it is never claimed."""

    async def story(world: World) -> None:
        world.line.down.add("next_claims")
        (gone, stays) = await world.schedule(2, 0.1)
        await asyncio.sleep(0.5)
        assert await world.client.cancel(gone.id)
        world.line.down.clear()
        await world.succeed([stays])
        assert of(gone) == []
        assert (await world.record(gone)).status is Status.CANCELLED

    play(story, hosts=1)


def test_claim_against_cancel() -> None:
    """Claimed just before: it is flagged, the next heartbeat tells, and it ends cancelled."""

    async def story(world: World) -> None:
        (handle,) = await world.schedule(1, 60.0)
        await world.until(lambda: len(of(handle)) == 1)
        assert await world.client.cancel(handle.id)
        (record,) = await world.finished([handle], within=5)
        assert record.status == t.CANCELLED
        (run,) = of(handle)
        assert run.end is not None
        assert run.end - run.start < 5

    play(story, hosts=1)


def test_cancel_against_finish() -> None:
    """The lambda ends before it is told: it has succeeded, and a cancel after that changes nothing."""

    async def story(world: World) -> None:
        (handle,) = await world.schedule(1, 1.0)
        await world.until(lambda: len(of(handle)) == 1)
        world.line.down.add("heartbeat")
        await asyncio.sleep(0.9)
        assert await world.client.cancel(handle.id)
        await world.succeed([handle])
        world.line.down.clear()
        assert not await world.client.cancel(handle.id)
        assert (await world.record(handle)).status is Status.SUCCESS

    play(story, hosts=1)


def test_cancel_against_failure() -> None:
    """Flagged, and then it fails: it is cancelled, not tried again."""

    async def story(world: World) -> None:
        (handle,) = await world.schedule(1, 1.0, fails=3)
        await world.until(lambda: len(of(handle)) == 1)
        world.line.down.add("heartbeat")
        assert await world.client.cancel(handle.id)
        (record,) = await world.finished([handle], within=5)
        world.line.down.clear()
        assert record.status == t.CANCELLED
        assert len(of(handle)) == 1

    play(story, hosts=1)


def test_cancel_against_loss() -> None:
    """Flagged, and then its executor dies: it is cancelled, and does not run again."""

    async def story(world: World) -> None:
        (handle, other) = await world.schedule(2, 60.0)
        await world.until(lambda: len(of(handle)) == 1 and len(of(other)) == 1)
        assert await world.client.cancel(handle.id)
        world.hosts[0].crash()
        await world.until(lambda: len(of(other)) == 2)
        assert (await world.record(handle)).status is Status.CANCELLED
        assert len(of(handle)) == 1

    play(story, hosts=1)


def test_retry_against_cancel() -> None:
    """Cancelled while it ran and retried at once: a fresh life, without the flag, and never beside the old run."""

    async def story(world: World) -> None:
        (handle,) = await world.schedule(1, 3.0)
        await world.until(lambda: len(of(handle)) == 1)
        assert await world.client.cancel(handle.id)
        assert not await world.client.retry(handle.id), "it has not ended yet"
        await world.finished([handle])
        assert await world.client.retry(handle.id)
        (record,) = await world.succeed([handle])
        assert (len(of(handle)), record.attempts, record.cancel_requested) == (2, 1, False)

    play(story, hosts=1)


def test_cancel_against_retry() -> None:
    """A dead letter that is retried and cancelled at once does not run; retried again, it does."""

    async def story(world: World) -> None:
        letter = await world.client.schedule(hopeless.prepare())
        await world.finished([letter])
        await world.client.pause("f/hopeless")
        assert await world.client.retry(letter.id)
        assert await world.client.cancel(letter.id)
        await world.client.resume("f/hopeless")
        await asyncio.sleep(15)
        assert len(of(letter)) == 1
        assert await world.client.retry(letter.id)
        await world.succeed([letter])

    play(story, hosts=1)


def test_what_a_lambda_does_wrong_ends_its_own_task_alone() -> None:
    """It raises; it returns what JSON does not have; its payload does not fit; nobody here knows it."""

    async def story(world: World) -> None:
        good = await world.schedule(4, 0.5)
        raises = await world.schedule(1, 0.1, fails=9, max_attempts=2)
        returns = await world.client.schedule(returns_a_set.prepare())
        misfit = await world.client.schedule("f/step", {"seconds": "soon", "fails": []})
        garbage = await world.client.schedule("f/step", b"\xff\xfe")
        (raised, returned) = await world.finished([*raises, returns])
        await world.succeed(good)
        for record, attempts, says in (
            (raised, 2, "RuntimeError: attempt 2 fails"),
            (returned, 1, "f/returns_a_set returned what JSON can't hold: "),
        ):
            assert record.status == t.FATAL_FAILURE
            assert (record.attempts, record.losses) == (attempts, 0)
            assert says in record.error
        for waits in (misfit, garbage):  # an executor of another release may know what to do with it
            unfit = await world.record(waits)
            assert (Status(unfit.status).finished, unfit.attempts, unfit.losses) == (False, 0, 0)
        assert of(misfit) == of(garbage) == []

    play(story, hosts=1)


def test_a_lambda_that_no_executor_knows_waits_and_takes_nobody_along() -> None:
    """It was registered once, and the executors of today do not announce it: its tasks wait for one that does."""

    async def story(world: World) -> None:
        spec = step.spec()
        spec.name = "f/gone"
        await world.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[spec]))
        waits = await world.client.schedule("f/gone", {"seconds": 0.1})
        await world.succeed(await world.schedule(4, 0.1))
        await asyncio.sleep(30)
        record = await world.record(waits)
        assert (record.status, record.attempts, record.losses) == (Status.ENQUEUED, 0, 0)
        assert (await world.client.explain(waits.id)).position == 0

    play(story, hosts=1)
