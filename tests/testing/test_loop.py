"""The virtual-time loop: time moves by jumps, in order, never early; and what would take real time is refused."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from atf.testing.loop import Deadlock, RealIO, VirtualLoop
from atf.testing.runtime import EPOCH_US, VirtualRuntime


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_a_day_of_sleeping_takes_no_time(loop: VirtualLoop) -> None:
    begun = time.perf_counter()
    loop.run_until_complete(asyncio.sleep(86_400 * 30))
    assert loop.time() == 86_400 * 30
    assert time.perf_counter() - begun < 1


def test_timers_run_in_order_at_their_instants(loop: VirtualLoop) -> None:
    seen: list[tuple[str, int]] = []

    def note(name: str) -> None:
        seen.append((name, loop.now_us))

    for name, delay in [("c", 3.5), ("a", 0.000_001), ("b", 2.0), ("b2", 2.0)]:
        loop.call_later(delay, note, name)
    loop.advance_to(3_499_999)
    assert seen == [("a", 1), ("b", 2_000_000), ("b2", 2_000_000)]
    assert loop.now_us == 3_499_999
    loop.advance_to(3_500_000)
    assert seen[-1] == ("c", 3_500_000)


@pytest.mark.parametrize("delay", [0.1, 1 / 3, 0.000_000_4, 1e-6, 12_345.678_901_2])
def test_no_timer_is_early(loop: VirtualLoop, delay: float) -> None:
    loop.advance_to(777_777)
    start = loop.time()
    loop.run_until_complete(asyncio.sleep(delay))
    assert start + delay - 1e-9 <= loop.time() <= start + delay + 1.1e-6


def test_advance_runs_what_follows_at_its_last_instant(loop: VirtualLoop) -> None:
    seen: list[int] = []

    async def chain() -> None:
        await asyncio.sleep(5)
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(loop.now_us)

    task = loop.create_task(chain())
    loop.advance_to(5_000_000)
    assert seen == [5_000_000]
    assert task.done()


def test_advance_does_not_go_back(loop: VirtualLoop) -> None:
    loop.advance_to(10)
    loop.advance_to(5)
    assert loop.now_us == 10


def test_next_timer_leaves_out_the_cancelled(loop: VirtualLoop) -> None:
    assert loop.next_timer_us() is None
    first = loop.call_later(1, int)
    loop.call_later(2, int)
    assert loop.next_timer_us() == 1_000_000
    first.cancel()
    assert loop.next_timer_us() == 2_000_000


def test_timeouts_follow_the_virtual_clock(loop: VirtualLoop) -> None:
    async def wait() -> None:
        async with asyncio.timeout(60):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        loop.run_until_complete(wait())
    assert loop.time() == 60


def test_a_wait_that_can_never_end_is_a_deadlock(loop: VirtualLoop) -> None:
    task = loop.create_task(asyncio.Event().wait())
    with pytest.raises(Deadlock, match="can never happen"):
        loop.run_until_complete(task)
    task.cancel()
    loop.advance_to(0)


def test_sockets_are_refused(loop: VirtualLoop) -> None:
    with pytest.raises(RealIO, match="create_connection"):
        loop.run_until_complete(asyncio.open_connection("127.0.0.1", 1))
    with socket.socket() as sock, pytest.raises(RealIO, match="sock_connect"):
        loop.run_until_complete(loop.sock_connect(sock, ("127.0.0.1", 1)))


def test_subprocesses_are_refused(loop: VirtualLoop) -> None:
    with pytest.raises(RealIO, match="subprocess_exec"):
        loop.run_until_complete(asyncio.create_subprocess_exec("true"))


def test_calls_from_another_thread_are_refused(loop: VirtualLoop) -> None:
    errors: list[BaseException] = []

    def call() -> None:
        try:
            loop.call_soon_threadsafe(int)
        except RealIO as error:
            errors.append(error)

    async def main() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    loop.run_until_complete(main())
    assert len(errors) == 1


def test_to_thread_runs_at_once(loop: VirtualLoop) -> None:
    async def main() -> tuple[int, int]:
        value = await asyncio.to_thread(lambda: 42)
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return value, loop.now_us

    assert loop.run_until_complete(main()) == (42, 0)


def test_the_runtime_reads_the_loops_clock_and_repeats_itself(loop: VirtualLoop) -> None:
    one, two = VirtualRuntime(loop, seed=7), VirtualRuntime(loop, seed=7)
    loop.advance_to(1_500_000)
    assert (one.monotonic(), one.boottime_us(), one.wall_us()) == (1.5, 1_500_000, EPOCH_US + 1_500_000)
    assert one.random.getrandbits(64) == two.random.getrandbits(64)
    assert one.boot_id() == two.boot_id()


def test_the_runtime_spawns_on_its_loop(loop: VirtualLoop) -> None:
    runtime = VirtualRuntime(loop)
    task = runtime.spawn(asyncio.sleep(3, "done"), name="sleeper")
    assert loop.run_until_complete(task) == "done"
    assert loop.time() == 3
    assert task.get_name() == "sleeper"


@pytest.mark.parametrize("fraction", [0.1, 1e-3, 1e-5, 1e-7])
def test_a_wait_of_less_than_a_microsecond_ends(loop: VirtualLoop, fraction: float) -> None:
    """Whoever waits for an instant in a loop gets there, although the clock goes by whole microseconds."""

    async def wait() -> int:
        until, waits = loop.time() + 1 + fraction / 1e6, 0
        while (left := until - loop.time()) > 0 and waits < 10:
            await asyncio.sleep(left)
            waits += 1
        return waits

    assert loop.run_until_complete(wait()) <= 2
