"""A pause of claims: what the store says of it, the words for it, and that it is said once in a log when it begins and once when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import fakeredis
import pytest

from atf import log
from atf.config.settings import LogSettings, StoreSettings, Timing
from atf.errors import ClaimsPaused, Unavailable
from atf.runtime import end
from atf.store.claim_pause import ClaimPause, PauseCause, PauseLog
from atf.store.servers.modes import fake_link
from atf.store.store import Store
from atf.task import US
from atf.testing.runtime import VirtualRuntime
from tests.claiming import serve_queues, take
from tests.known import know
from tests.virtual import virtual

from .test_misfits import NEW, OLD, alive, pop, unfit
from .test_roster import Server, server, two_at_work
from .world import LAMBDA, QUEUE, Clock, World

__all__ = ["server"]

QUEUES = [[f"{LAMBDA}:1"]]


def paused(**fields: Any) -> ClaimPause:
    return ClaimPause(**{"left_us": 12 * US, "unseen": False, "waits_for": 0, "cause": PauseCause.RESTART, **fields})


# --- the words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pause", "says"),
    [
        (
            paused(),
            "no task starts for at least another 12 s: claims are paused, since a server of the task store restarted or was",
        ),
        (
            paused(),
            "replaced. Executors may still run tasks whose claims it has forgotten, and no task may run twice at the same time",
        ),
        (paused(left_us=1), "no task starts for at least another 1 s: claims are paused"),
        (paused(left_us=11 * US + 1), "no task starts for at least another 12 s: claims are paused"),
        (
            paused(cause=PauseCause.IMPORT),
            "since tasks were imported into the task store. Executors may still run them, and",
        ),
        (
            paused(cause=PauseCause.EMPTIED),
            "since a server of the task store came back without its data. Executors may",
        ),
        (paused(partitions=3, of=16), "no task in 3 of 16 partitions starts for at least another 12 s"),
        (paused(partitions=16, of=16), "no task starts for at least another 12 s"),
        (paused(waits_for=1), "no task starts for another 12 s: claims are paused"),
        (paused(waits_for=1), "ends sooner once the last heartbeat service has found that none of its claims was"),
        (paused(waits_for=2), "ends sooner once 2 heartbeat services have found that none of their claims was forgot"),
        (paused(unseen=True), "no task starts until a store consumer has seen the pause of claims go by, which began"),
    ],
)
def test_the_sentence(pause: ClaimPause, says: str) -> None:
    assert says in pause.sentence
    assert not pause.sentence.endswith(".")


def test_of_several_partitions_the_longest_counts() -> None:
    away = Unavailable("away")
    assert ClaimPause.longest_of([None, away]) is None
    short, long, stuck = paused(left_us=1), paused(left_us=9), paused(left_us=2, unseen=True)
    assert ClaimPause.longest_of([short, None, long, away]) == long._replace(partitions=2, of=4)
    assert ClaimPause.longest_of([stuck, long]) == stuck._replace(partitions=2, of=2)


# --- what the store says ----------------------------------------------------------------------------------------------


async def test_a_restart_says_who_is_still_to_answer_and_then_nothing(server: Server, clock: Clock) -> None:
    one, two = await two_at_work(server)
    assert await one.store.claim_pauses() == [None]
    server.restart("two")
    await one.store.claim_pauses()  # meets the other server, and has it noted
    assert await one.store.claim_pauses() == [paused(left_us=16 * US, waits_for=2)]
    with pytest.raises(ClaimsPaused, match="once the last heartbeat service has found that none of its claims"):
        await take(one.store, QUEUE)
    clock.advance(4)
    assert await one.store.claim_pauses() == [paused(waits_for=1)]
    await two.store.heartbeat([])
    assert await take(two.store, QUEUE)
    assert await one.store.claim_pauses() == [None]


async def test_a_pause_that_no_answer_ends_waits_for_nobody(server: Server, clock: Clock) -> None:
    one, _ = await two_at_work(server)
    server.memory = "0"
    server.restart("two")
    await one.store.claim_pauses()
    assert await one.store.claim_pauses() == [paused(left_us=16 * US)]
    clock.advance(16)
    (left,) = await one.store.claim_pauses()
    assert left is not None
    assert left == paused(left_us=US, unseen=True)
    await one.passes()
    assert await one.store.claim_pauses() == [None]


async def test_an_import_is_named_as_the_cause(world: World) -> None:
    await world.store.pause_claims()
    pause = ClaimPause.longest_of(await world.store.claim_pauses())
    assert pause is not None
    assert pause.cause is PauseCause.IMPORT
    await world.schedule("a")
    await world.passes()
    found = await world.store.explain_task("0-a")
    assert found is not None
    assert found.pause is not None
    assert found.pause.cause is PauseCause.IMPORT


async def test_a_store_that_came_back_with_nothing_is_named_as_the_cause(clock: Clock) -> None:
    run_id = "first"
    link = fake_link(fakeredis.FakeServer(version=(7, 4)), lambda: (run_id, "0"))
    store = Store(link, StoreSettings(partitions=1), Timing(), VirtualRuntime(asyncio.get_running_loop()))  # type: ignore[arg-type]
    store.now = clock
    await store.link.load_library()
    await store.open_partition(0)
    await store.link.client.flushall()
    await store.link.load_library()
    run_id = "second"
    clock.advance(1)
    await store.open_partition(0)
    assert await store.claim_pauses() == [paused(left_us=16 * US, cause=PauseCause.EMPTIED)]
    await store.close()


async def test_a_partition_that_is_away_says_so_and_holds_up_no_other(world: World) -> None:
    async def away(_verb: str, _record: str, *_args: Any, **_more: Any) -> Any:
        raise Unavailable("it is away")

    world.store.link.call = away  # type: ignore[method-assign, assignment]
    found = await world.store.claim_pauses()
    assert [str(each) for each in found] == ["it is away"] * world.store.partitions
    assert ClaimPause.longest_of(found) is None


# --- who meets it -----------------------------------------------------------------------------------------------------


async def test_a_pop_meets_it_only_where_something_waits(world: World) -> None:
    await world.store.pause_claims()
    assert await serve_queues(world.store, 0, QUEUES, 10) == []
    assert not world.store.pause_met.is_set()
    await world.schedule("a")
    await world.passes()
    with pytest.raises(ClaimsPaused):
        await serve_queues(world.store, 0, QUEUES, 10)
    assert world.store.pause_met.is_set()


async def test_a_pop_of_what_waits_for_another_signature_meets_it(world: World) -> None:
    await alive(world, OLD, NEW)
    await unfit(world, "a")
    await world.passes()
    await world.store.pause_claims()
    world.store.pause_met.clear()
    with pytest.raises(ClaimsPaused):
        await pop(world, NEW)
    assert world.store.pause_met.is_set()


# --- the log ----------------------------------------------------------------------------------------------------------


class Logged:
    """A store whose pauses are said in a log, on virtual time."""

    def __init__(self, store: Store, runtime: VirtualRuntime) -> None:
        self.store, self.runtime = store, runtime
        self.stream = io.StringIO()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@contextlib.asynccontextmanager
async def logged(runtime: VirtualRuntime) -> AsyncIterator[Logged]:
    fake = fakeredis.FakeServer(version=(7, 4))
    store = await Store.open(StoreSettings(partitions=2), Timing(), runtime, fake=fake)
    store.now = runtime.wall_us
    await know(store, LAMBDA)
    made, before = Logged(store, runtime), (log.output.logger, log.output.debug)
    log.setup(LogSettings(log_format="json"), "controller", stream=made.stream)
    duty = runtime.spawn(PauseLog(store, runtime).run(), name="pauses of claims")
    try:
        yield made
    finally:
        await end([duty])
        await store.close()
        log.output.logger, log.output.debug = before


async def _passes(store: Store) -> None:
    for partition in range(store.partitions):
        await store.enqueue(partition, 0)


@virtual(logged)
async def test_one_line_at_its_begin_and_one_at_its_end(w: Logged) -> None:
    await w.store.pause_claims()
    for _ in range(40):  # of as many asks
        w.store.pause_met.set()
        await asyncio.sleep(0.3)
    (line,) = w.lines()
    assert (line["event"], line["level"], line["duty"]) == ("claims are paused", "warning", "claims")
    assert line["why"].startswith("no task starts for at least another 15 s: claims are paused, since tasks were imp")
    await asyncio.sleep(10)
    await _passes(w.store)
    await asyncio.sleep(2)
    assert [each["event"] for each in w.lines()] == ["claims are paused", "claims are given again"]
    assert w.lines()[1]["paused_s"] >= 16
    assert not w.store.pause_met.is_set()
    await w.store.pause_claims()
    w.store.pause_met.set()
    await asyncio.sleep(2)
    assert [each["event"] for each in w.lines()][2:] == ["claims are paused"], "each pause is said"


@virtual(logged)
async def test_one_that_is_over_within_a_second_is_not_said(w: Logged) -> None:
    w.store.pause_met.set()
    await asyncio.sleep(5)
    assert w.lines() == []
    assert not w.store.pause_met.is_set()


@virtual(logged)
async def test_a_store_that_is_away_ends_no_pause(w: Logged) -> None:
    await w.store.pause_claims()
    w.store.pause_met.set()
    await asyncio.sleep(2)
    direct = w.store.link.call

    async def away(_verb: str, _record: str, *_args: Any, **_more: Any) -> Any:
        raise Unavailable("it is away")

    w.store.link.call = away  # type: ignore[method-assign, assignment]
    await asyncio.sleep(30)
    assert len(w.lines()) == 1
    w.store.link.call = direct  # type: ignore[method-assign]
    await _passes(w.store)
    await asyncio.sleep(2)
    assert len(w.lines()) == 2


@virtual(logged)
async def test_who_asks_for_leases_meets_it_though_nothing_waits(w: Logged) -> None:
    attending = w.runtime.spawn(w.store.attend(), name="attend")
    await asyncio.sleep(5)
    assert w.lines() == []
    await w.store.pause_claims()
    await asyncio.sleep(3)
    assert [each["event"] for each in w.lines()] == ["claims are paused"]
    await end([attending])
