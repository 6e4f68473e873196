"""The loop that the calling thread turns."""

from __future__ import annotations

import asyncio

import pytest

from atf.direct.stepping_loop import SteppingLoop


def loop() -> tuple[SteppingLoop, list[float]]:
    slept: list[float] = []
    made = SteppingLoop(slept.append)
    now = made.time()
    made.time = lambda: now + sum(slept)  # type: ignore[method-assign]
    return made, slept


def test_runs_to_the_end_and_sleeps_only_for_timers() -> None:
    async def work() -> str:
        done = asyncio.get_running_loop().create_task(asyncio.sleep(0.5, "late"))
        assert tuple(await asyncio.gather(asyncio.sleep(0, "a"), asyncio.sleep(0.25, "b"))) == ("a", "b")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.sleep(60)
        return await done

    stepping, slept = loop()
    assert stepping.run(work()) == "late"
    assert sum(slept) == pytest.approx(0.5)


def test_an_error_reaches_the_caller_and_the_loop_goes_on() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    stepping, _ = loop()
    with pytest.raises(ZeroDivisionError):
        stepping.run(fails())
    assert stepping.run(asyncio.sleep(0, 1)) == 1


def test_what_nothing_can_end_is_refused() -> None:
    stepping, slept = loop()
    with pytest.raises(RuntimeError, match="what is awaited here can't happen"):
        stepping.run(asyncio.Event().wait())
    assert not slept


def test_an_interrupt_cancels_the_work() -> None:
    ended: list[str] = []

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            ended.append("cancelled")

    with pytest.raises(KeyboardInterrupt):
        SteppingLoop(interrupt).run(work())
    assert ended == ["cancelled"]


async def test_runs_within_another_loop() -> None:
    around = asyncio.get_running_loop()
    stepping, _ = loop()
    assert stepping.run(asyncio.sleep(0, "a")) == "a"
    assert asyncio.get_running_loop() is around
    await asyncio.sleep(0)


async def _steps(trace: list[str], waits: float) -> str:
    try:
        trace.append("begun")
        if waits:
            trace.append(await asyncio.sleep(waits, "slept"))
            async with asyncio.timeout(1):  # it has a task by now
                await asyncio.sleep(0)
        if waits > 1:
            raise ZeroDivisionError
        return "done"
    finally:
        trace.append("ended")


@pytest.mark.parametrize("waits", [0, 0.5])
def test_a_step_has_the_result_whether_or_not_it_waits(waits: float) -> None:
    stepping, slept = loop()
    trace: list[str] = []
    assert stepping.step(_steps(trace, waits)) == "done"
    assert trace == (["begun", "slept", "ended"] if waits else ["begun", "ended"])
    assert sum(slept) == pytest.approx(waits)


def test_a_step_raises_what_it_raises_also_after_it_has_waited() -> None:
    stepping, _ = loop()
    with pytest.raises(ZeroDivisionError):
        stepping.step(_steps([], 2))

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    trace: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        SteppingLoop(interrupt).step(_steps(trace, 0.5))
    assert trace == ["begun", "ended"]
