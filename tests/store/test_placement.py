"""Placement: which of a queue's tasks a host is given. Only ever a preference."""

from __future__ import annotations

import pytest

from atf.store import keys, library
from atf.store.library import NEAR_LIFE_US, PLACE_AWAY_US, PLACE_PATIENCE_US
from atf.store.values.claims import Outcome, Taker
from atf.store.values.lambdas import LambdaRecord
from atf.task import US
from tests.claiming import fresh_nonce, note_served, serve_queues

from .conftest import OpenStore
from .versions import in_place
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, QUEUE, Clock, World, dump, held

PATIENCE_S = PLACE_PATIENCE_US / US
AWAY_S = PLACE_AWAY_US / US


def record_of(settings: str, limit: int = 1000) -> LambdaRecord:
    return LambdaRecord(LAMBDA, b"x", limit, ENQUEUE_TIMEOUT_US, paused=False, settings=settings)


async def placed(world: World, how: str, limit: int = 1000) -> None:
    await world.store.register_lambdas([record_of(f"placement={how}", limit)])


async def push(world: World, *names: str, **options: str) -> None:
    await world.schedule(*names, **options)
    await world.passes()
    await world.check()


async def ask(world: World, host: str, want: int = 10, *, runs: bool = True) -> str:
    """The tasks that a host is given, in order; "…" behind them where some were left to others. It runs them, unless told otherwise."""
    taker = Taker("executor-1", fresh_nonce(), want)
    taken = await world.store.next_claims(0, [[QUEUE]], [taker], want=want, host=host)
    await world.check()
    claims = taken.claims[taker.nonce]
    note_served(claims)
    if claims and runs:
        await world.finish(Outcome.SUCCEEDED, *held(claims))
    return " ".join(each.task_id[2:] for each in claims) + "…" * taken.left


async def remember(world: World, number: int = 0, **hosts: str) -> None:
    """Each key has its host; tasks of it are named after it."""
    for key, host in hosts.items():
        await push(world, f"{key}{number}", affinity=key)
        assert await ask(world, host) == f"{key}{number}"


# --- sticky ------------------------------------------------------------------------------------------------------------


async def test_tasks_of_a_key_are_left_to_the_host_that_had_the_last_one(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one", b="two")
    for name in ("a1", "b1", "a2", "b2"):
        await push(world, name, affinity=name[0])
    assert await ask(world, "one") == "a1 a2…"
    assert await ask(world, "one") == "…"
    assert await ask(world, "two") == "b1 b2"


async def test_what_has_no_key_or_a_new_one_goes_to_whoever_comes(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one")
    await push(world, "x")
    await push(world, "b1", affinity="b")
    assert await ask(world, "two") == "x b1"


async def test_a_task_waits_for_its_host_so_long_and_no_longer_and_its_key_moves_with_it(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one")
    await push(world, "a1", affinity="a")
    world.clock.advance(60)
    assert await ask(world, "two") == "…", "it is counted from when another one would take it"
    world.clock.advance(PATIENCE_S - 0.000001)
    assert await ask(world, "two") == "…"
    world.clock.advance(0.000001)
    assert await ask(world, "two") == "a1"
    await push(world, "a2", affinity="a")
    assert await ask(world, "one") == "…"
    assert await ask(world, "two") == "a2"


async def test_what_was_cancelled_while_it_stood_in_the_queue_waits_for_no_host_and_stays_as_it_is(
    world: World,
) -> None:
    await placed(world, "sticky")
    await remember(world, a="one", b="two")
    await push(world, "a1", "a2", "a3", affinity="a")
    await push(world, "b1", affinity="b")
    await world.store.cancel_tasks(["0-a1", "0-a3"])
    before = (await dump(world.store)).tasks()
    assert await ask(world, "two", 1, runs=False) == "b1"
    after = (await dump(world.store)).tasks()
    assert [after[each] for each in ("0-a1", "0-a3")] == [before[each] for each in ("0-a1", "0-a3")]
    await placed(world, "spread")
    await serve(world, "one", "two")
    await push(world, "c1", "c2", "c3", "c4")
    await world.store.cancel_tasks(["0-c4"])
    assert await ask(world, "two", runs=False) == "a2 c1 c2…"


async def test_a_clock_that_steps_back_makes_no_task_wait(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one")
    world.clock.advance(-3600)
    await push(world, "a1", affinity="a")
    world.clock.advance(3600)
    assert await ask(world, "two") == "…"
    world.clock.advance(-60)
    assert await ask(world, "two") == "a1"


async def test_a_host_that_let_a_task_wait_in_vain_is_waited_for_no_more_for_a_while(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one", b="one", c="one", d="one")
    await push(world, "a1", affinity="a")
    assert await ask(world, "two") == "…"
    world.clock.advance(PATIENCE_S)
    assert await ask(world, "two") == "a1"
    await push(world, "b1", affinity="b")
    assert await ask(world, "two") == "b1", "at once"
    world.clock.advance(AWAY_S)
    await push(world, "c1", affinity="c")
    assert await ask(world, "two") == "…"
    world.clock.advance(PATIENCE_S)
    assert await ask(world, "two") == "c1"
    await push(world, "x")
    assert await ask(world, "one") == "x", "here it is again"
    await push(world, "d1", affinity="d")
    assert await ask(world, "two") == "…"


async def test_a_retry_prefers_its_host_as_the_first_run_did(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one")
    await push(world, "a1", affinity="a")
    assert await ask(world, "two") == "…"
    assert await ask(world, "one", runs=False) == "a1"
    await world.finish(Outcome.FAILED, *held(await world.claim("0-a1")), retry_in_us=US)
    world.clock.advance(1)
    await world.passes()
    assert await ask(world, "two") == "…", "what it waited before does not count"


async def test_ids_that_overtook_others_count_as_gone_and_those_they_overtook_do_not(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one", b="two")
    await push(world, "a1", "a2", affinity="a")
    await push(world, "b1", "b2", "b3", affinity="b")
    await push(world, "a3", affinity="a")
    assert await ask(world, "two", 2) == "b1 b2"
    assert await world.pop(want=1) == ["0-a1"]
    world.clock.advance(ENQUEUE_TIMEOUT_US / US)
    assert await world.passes() == (0, 1, 0), "a1, which was taken and forgotten"
    assert await ask(world, "two", 3) == "a2 b3…", "a2 has been passed over for long enough, and a1 waits anew"


async def test_the_queues_of_a_group_share_what_is_wanted_whatever_is_left_in_one_of_them(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one", b="two")
    await push(world, *(f"a{number}" for number in range(1, 5)), affinity="a")
    await push(world, "b1", affinity="b")
    await world.schedule("m1", "m2", "m3", "m4", lambda_name="shop/other")
    await world.passes()
    found = await serve_queues(world.store, 0, [[QUEUE, "shop/other:1"]], 4, "", "two")
    assert found == [(QUEUE, ["0-b1"]), ("shop/other:1", ["0-m1", "0-m2", "0-m3"])]
    found = await serve_queues(world.store, 0, [[QUEUE], ["shop/other:1"]], 4, "", "two")
    assert found == [("shop/other:1", ["0-m4"])]


async def test_a_full_queue_that_has_been_drawn_from_is_visited_again(world: World) -> None:
    await placed(world, "sticky", limit=10)
    await remember(world, a="one")
    await world.schedule(*(f"a{number}" for number in range(10, 31)), affinity="a")
    await world.passes()
    assert await ask(world, "two") == "…"
    assert await world.passes() == (0, 0, 0)
    assert await ask(world, "one", 5) == "a10 a11 a12 a13 a14"
    assert await world.passes() == (5, 0, 0)


async def test_a_pop_without_a_name_takes_what_comes_first(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one")
    await push(world, "a1", affinity="a")
    assert await ask(world, "") == "a1"


async def test_of_a_lambda_that_is_not_placed_nothing_is_remembered(world: World) -> None:
    """Its tasks may have affinity keys."""
    await push(world, "a", "b", affinity="a")
    assert await ask(world, "one", 1) == "a"
    assert await ask(world, "two") == "b"
    assert not [key for key in (await dump(world.store)).data if "near" in key or "spread" in key]


async def test_which_host_had_a_key_is_forgotten_in_time(world: World) -> None:
    await placed(world, "sticky")
    await remember(world, a="one", b="one")
    world.clock.advance(NEAR_LIFE_US / US - 1)
    await remember(world, 1, a="one")
    world.clock.advance(1)
    await world.store.sweep(0, 1000)
    near = (await dump(world.store)).hash("atf:{0}:near")
    assert near == {f"{LAMBDA}:a": "one"}
    assert set((await dump(world.store)).zset("atf:{0}:near:expiry")) == set(near)


async def test_a_key_that_a_debounced_task_takes_over_is_that_of_the_last_call(world: World) -> None:
    unique = keys.unique(LAMBDA, "k", US, 1)
    await world.store.schedule([world.task("u1", unique=unique, affinity="a", digest=b"1")])
    await world.store.schedule([world.task("u2", unique=unique, affinity="b", digest=b"2")])
    assert (await dump(world.store)).tasks()["0-u1"]["af"] == "b"
    await world.store.schedule([world.task("u3", unique=unique, digest=b"3")])
    assert "af" not in (await dump(world.store)).tasks()["0-u1"]


# --- spread ------------------------------------------------------------------------------------------------------------


async def serve(world: World, *hosts: str, seconds: float = 30, lambdas: tuple[str, ...] = (LAMBDA,)) -> None:
    for host in hosts:
        await world.store.serve("", seconds, host, lambdas=lambdas)


def count(found: str) -> int:
    return len(found.rstrip("…").split())


async def test_each_host_has_its_part_of_what_is_there(world: World) -> None:
    await placed(world, "spread")
    await serve(world, "one", "two", "three")
    await push(world, *(f"t{number}" for number in range(9)))
    assert [await ask(world, "one"), await ask(world, "one")] == ["t0 t1 t2…", "…"]
    assert [await ask(world, "two"), await ask(world, "two")] == ["t3 t4 t5…", "…"]
    assert await ask(world, "three") == "t6 t7 t8"


async def test_single_tasks_go_to_the_hosts_in_turn(world: World) -> None:
    await placed(world, "spread")
    await serve(world, "one", "two")
    had = {"one": 0, "two": 0}
    for number in range(6):
        await push(world, f"t{number}")
        for host in had:  # the first is always quicker
            had[host] += count(await ask(world, host))
    assert had == {"one": 3, "two": 3}


async def test_the_part_of_a_host_that_does_not_come_goes_to_the_others(world: World) -> None:
    await placed(world, "spread")
    await serve(world, "one", "two")
    await push(world, *(f"t{number}" for number in range(4)))
    assert await ask(world, "one") == "t0 t1…"
    world.clock.advance(PATIENCE_S)
    assert await ask(world, "one") == "t2 t3"
    await push(world, *(f"u{number}" for number in range(4)))
    assert await ask(world, "one") == "u0 u1 u2 u3", "it is not waited for again so soon"
    await push(world, *(f"v{number}" for number in range(4)))
    assert count(await ask(world, "two")) == 2, "and has its part from now on, no more"


async def test_hosts_that_are_gone_or_serve_other_lambdas_have_no_part(world: World) -> None:
    await placed(world, "spread")
    await serve(world, "one", "two")
    await serve(world, "three", lambdas=("shop/other",))
    await serve(world, "gone", seconds=10)
    world.clock.advance(10)
    await push(world, *(f"t{number}" for number in range(4)))
    assert await ask(world, "one") == "t0 t1…"
    assert set((await dump(world.store)).hash(f"atf:{{0}}:spread:{LAMBDA}")) == {"one", "two"}


@pytest.mark.parametrize("before", ["", "placement=sticky"])
async def test_hosts_have_their_parts_of_a_lambda_as_soon_as_it_is_spread(world: World, before: str) -> None:
    await world.store.register_lambdas([record_of(before)])
    await serve(world, "one", "two")
    await serve(world, "three", lambdas=(f"{LAMBDA}s", "shop/other"))
    await serve(world, "gone", seconds=10)
    world.clock.advance(10)
    await placed(world, "spread")
    assert set((await dump(world.store)).hash(f"atf:{{0}}:spread:{LAMBDA}")) == {"one", "two"}
    await serve(world, "one")
    assert set((await dump(world.store)).hash("atf:{0}:hosts:run")) == {"one", "two", "three"}
    await push(world, *(f"t{number}" for number in range(4)))
    assert [await ask(world, "one"), await ask(world, "one")] == ["t0 t1…", "…"]
    assert await ask(world, "two") == "t2 t3"


async def test_beside_many_hosts_a_call_deals_over_some_of_them_and_the_others_join_by_themselves(
    open_store: OpenStore, clock: Clock
) -> None:
    """As many as one call looks at in a few milliseconds; here two."""
    source = library.CURRENT.source.replace(f"LOOKS = {library.SPREAD_LOOKS}", "LOOKS = 4")
    with in_place(library.Library("atf_1_looks", source.replace(library.CURRENT.name, "atf_1_looks").encode())):
        world = World(await open_store(), clock)
    hosts, part_of = ["a", "b", "c", "d"], f"atf:{{0}}:spread:{LAMBDA}"
    await serve(world, *hosts)
    await placed(world, "spread")
    assert set((await dump(world.store)).hash(part_of)) == {"a", "b"}
    for host in hosts:
        world.clock.advance(1)
        await serve(world, host)
    assert set((await dump(world.store)).hash(part_of)) == set(hosts)


@pytest.mark.parametrize("place", [0, 255, 256, 600])
async def test_a_host_may_serve_more_lambdas_than_one_call_tells(world: World, place: int) -> None:
    many = [f"shop/n{number}" for number in range(600)]
    for _ in range(2):  # what is said again does not pile up
        await serve(world, "one", lambdas=(*many[:place], LAMBDA, *many[place:]))
    assert (await dump(world.store)).hash("atf:{0}:hosts:run")["one"].split().count(LAMBDA) == 1
    await placed(world, "spread")
    assert set((await dump(world.store)).hash(f"atf:{{0}}:spread:{LAMBDA}")) == {"one"}


async def test_a_setting_of_a_spread_lambda_leaves_the_parts_as_they_are(world: World) -> None:
    await placed(world, "spread")
    await serve(world, "one", "two")
    await push(world, "a", "b")
    assert await ask(world, "one") == "a…"
    await world.store.register_lambdas([record_of("placement=spread rate=1000")])
    assert await ask(world, "one") == "…"
    assert await ask(world, "two") == "b"


async def test_a_host_that_joins_does_not_make_up_for_what_it_missed(world: World) -> None:
    await placed(world, "spread")
    await serve(world, "one")
    await push(world, *(f"t{number}" for number in range(8)))
    assert count(await ask(world, "one")) == 8
    await serve(world, "two")
    await push(world, *(f"u{number}" for number in range(8)))
    assert count(await ask(world, "two")) == 4


async def test_more_tasks_than_a_pop_looks_at_are_no_trouble(world: World) -> None:
    await placed(world, "spread")
    await serve(world, "one", "two")
    await push(world, *(f"t{number}" for number in range(120)))
    had = [count(await ask(world, host, 20)) for host in ("one", "two") * 4]
    assert sum(had[0::2]) == sum(had[1::2]) == 60


def test_patience_is_a_fraction_of_a_second_and_far_below_what_is_looked_at_again() -> None:
    assert library.PLACE_PATIENCE_US <= US // 2
