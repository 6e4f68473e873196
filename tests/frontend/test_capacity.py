"""What operators set of a pool's cores, and what there is to see."""

from __future__ import annotations

from typing import Any

import pytest

from atf.cores.pool import CorePool
from atf.errors import AtfError, FailedPrecondition, InvalidArgument, NotFound, Unavailable, UnknownLambda
from atf.rpc import frontend_pb2 as f
from atf.task import US

from .conftest import START_US, Bench

LAMBDA = "photos/thumbnail"


async def set_(bench: Bench, pool: str = "gpu", **fields: Any) -> f.Capacity:
    return await bench.frontend.set_capacity(f.SetCapacityRequest(pool=pool, **fields))


@pytest.fixture(autouse=True)
async def host(bench: Bench) -> None:
    """Of the pool gpu; it counts as alive for an hour."""
    await bench.store.serve("gpu", 3600, "one:7403")


async def get(bench: Bench, pool: str = "gpu") -> f.Capacity:
    return await bench.frontend.get_capacity(f.GetCapacityRequest(pool=pool))


async def join(bench: Bench, *names: str) -> None:
    """Executors become members and are dealt into groups, as controllers do it."""
    found = await bench.store.get_capacity("gpu", here=names, stay_us=60 * US)
    assert found is not None
    pool = CorePool.decode(found.state)
    pool.staff(len(names), found.now_us)
    groups = [list(names[first :: pool.settings.cores]) for first in range(pool.settings.cores)]
    assert await bench.store.set_capacity("gpu", found.version, pool.encode(), (groups, found.membership))


async def test_what_is_not_given_stays_as_it_is(bench: Bench) -> None:
    await bench.register(pool="gpu")
    await set_(bench, cores=4, reserve={LAMBDA: 2}, rotation_us=3 * US)
    found = await set_(bench, lookahead=5)
    assert len(found.cores) == 4
    assert dict(found.reserved) == {LAMBDA: 2}
    assert (found.lookahead, found.rotation_us, found.multiplexed_timeout_us) == (5, 3 * US, US)
    assert [core.reserved for core in found.cores] == [True, True, False, False]
    assert dict((await set_(bench, reserve={LAMBDA: 0})).reserved) == {}
    assert list((await bench.frontend.list_capacity(f.ListCapacityRequest())).pools) == ["gpu"]


async def test_the_pool_of_the_hosts_without_one_has_one_name(bench: Bench) -> None:
    assert (await set_(bench, "default", cores=2, reserve={LAMBDA: 1})).pool == "default"
    assert len((await get(bench, "")).cores) == len((await get(bench, "default")).cores) == 2
    assert list((await bench.frontend.list_capacity(f.ListCapacityRequest())).pools) == ["default"]
    await set_(bench, "default", reserve={LAMBDA: 0})
    assert (await set_(bench, "", cores=0)).pool == "default"


async def test_no_cores_at_all_is_how_every_pool_begins_and_may_end(bench: Bench) -> None:
    with pytest.raises(NotFound, match="its executors run whatever comes"):
        await get(bench)
    with pytest.raises(NotFound, match=r"the pool gpu has no cores.*atf capacity set gpu --cores N"):
        await set_(bench, lookahead=2)
    with pytest.raises(NotFound, match=r"the pool default has no cores.*atf capacity set default --cores N"):
        await get(bench, "")
    await set_(bench, cores=2)
    assert not (await set_(bench, cores=0)).cores
    await set_(bench, cores=0)
    with pytest.raises(NotFound):
        await get(bench)


async def test_a_changed_number_of_cores_keeps_claims_and_deals_the_groups_anew(bench: Bench) -> None:
    await set_(bench, cores=2)
    await join(bench, "e1", "e2", "e3", "e4", "e5")
    record = await bench.store.get_capacity("gpu")
    assert record is not None
    pool = CorePool.decode(record.state)
    for number in range(5):
        pool.claim(f"a/l{number}", record.now_us)
    await bench.store.set_capacity("gpu", record.version, pool.encode())
    found = await set_(bench, cores=3)
    assert sorted(len(group.executors) for group in found.groups) == [1, 2, 2]
    names = {getattr(each, "lambda") for each in (*found.cores, *found.queue)}
    assert names == {f"a/l{number}" for number in range(5)}
    assert found.cores[0].next_up_on_available == getattr(found.queue[0], "lambda")


async def test_when_groups_rotate_is_known(bench: Bench) -> None:
    bench.store.now = lambda: bench.clock.now_us
    await set_(bench, cores=3)
    bench.clock.advance(25)
    found = await get(bench)
    assert (found.rotation, found.rotated_at_us) == (2, START_US + 20 * US)
    assert found.next_rotation_at_us == START_US + 30 * US
    assert [core.group for core in found.cores] == [1, 2, 0]


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"cores": -1}, InvalidArgument, "cores -1: use 1 to 64"),
        ({"cores": 2, "reserve": {"no/such": 1}}, UnknownLambda, "no/such"),
        ({"cores": 2, "reserve": {"nonsense": 1}}, InvalidArgument, "write namespace/name"),
        ({"cores": 2, "reserve": {LAMBDA: -1}}, InvalidArgument, "use 1 or more, or 0 for none"),
        ({"cores": 2, "reserve": {LAMBDA: 2}}, InvalidArgument, "leave at least one to take turns on"),
        ({"cores": 2, "pool": "cpu", "reserve": {LAMBDA: 1}}, InvalidArgument, "runs in the pool gpu, not in cpu"),
        ({"cores": 2, "pool": "", "reserve": {LAMBDA: 1}}, InvalidArgument, "runs in the pool gpu, not in default"),
        ({"cores": 2, "pool": "", "reserve": {"web/get": 1}}, InvalidArgument, "runs in the pool cpu, not in default"),
        (
            {"cores": 0, "lookahead": 2},
            InvalidArgument,
            "cores 0 takes all cores .* so lookahead means nothing beside it",
        ),
        ({"cores": 0, "reserve": {LAMBDA: 1}}, InvalidArgument, "so reserve means nothing beside it"),
        (
            {"cores": 2, "pool": "gpo"},
            NotFound,
            r"no pool 'gpo'.*Did you mean gpu\? atf worker --pool gpo starts one",
        ),
        ({"cores": 2, "pool": "other"}, NotFound, "no live controller belongs to it. atf worker --pool other"),
        ({"cores": 2, "pool": "no pool"}, InvalidArgument, "pool 'no pool'"),
        ({"cores": 2, "rotation_us": 0}, InvalidArgument, "rotation 0 s: use 10 ms to 1 d"),
    ],
)
async def test_bad_input_is_refused_and_changes_nothing(
    bench: Bench, fields: dict[str, Any], error: type[AtfError], says: str
) -> None:
    await bench.register(pool="gpu")
    await bench.register("web/get", pool="cpu")
    with pytest.raises(error, match=says):
        await set_(bench, **{"pool": "gpu", **fields})
    assert await bench.store.list_capacity() == []


async def test_a_pool_is_known_by_its_hosts_its_lambdas_or_its_cores(bench: Bench) -> None:
    for call in (set_(bench, "new", cores=2), get(bench, "new")):
        with pytest.raises(NotFound, match="there is no pool 'new'"):
            await call
    await bench.store.serve("new", 30, "two:7403")
    with pytest.raises(NotFound, match="the pool new has no cores"):
        await get(bench, "new")
    await set_(bench, "new", cores=2)
    bench.clock.advance(30)
    assert len((await set_(bench, "new", cores=3)).cores) == 3, "its cores are there"
    await set_(bench, "new", cores=0)
    with pytest.raises(NotFound, match="there is no pool 'new'"):
        await set_(bench, "new", cores=2)
    await bench.another_frontend().register_lambdas(
        f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=LAMBDA, pool="new")])
    )
    assert len((await set_(bench, "new", cores=2)).cores) == 2


async def test_a_repeat_of_what_took_the_cores_away_is_answered_alike(bench: Bench) -> None:
    await set_(bench, cores=2)
    bench.clock.advance(3600)  # nothing but its cores makes the pool known any more
    for _ in range(2):
        assert await set_(bench, cores=0) == f.Capacity(pool="gpu")


async def test_a_pool_is_known_by_a_host_without_a_name_too(bench: Bench) -> None:
    await bench.store.serve("new", 30)
    assert len((await set_(bench, "new", cores=2)).cores) == 2


async def set_lambda(bench: Bench, settings: dict[str, str], *unset: str) -> f.LambdaInfo:
    return await bench.frontend.set_lambda(f.SetLambdaRequest(**{"lambda": LAMBDA}, set=settings, unset=unset))


async def move(bench: Bench, pool: str) -> f.LambdaInfo:
    return await set_lambda(bench, {"pool": pool})


async def test_a_lambda_moves_to_no_pool_that_nobody_uses(bench: Bench) -> None:
    with pytest.raises(NotFound, match=r"no pool 'gpo'.*Did you mean gpu\?"):
        await move(bench, "gpo")
    assert (await move(bench, "gpu")).in_force.pool == "gpu"
    bench.clock.advance(3600)
    assert (await move(bench, "gpu")).in_force.pool == "gpu", "it stays where it is, though the host is gone"
    assert (moved := await move(bench, "default")).in_force.pool == ""
    assert dict(moved.overrides) == {"pool": "default"}
    with pytest.raises(NotFound):
        await move(bench, "gpu")
    await bench.register(pool="code")  # code may name a pool before there is one
    assert (await set_lambda(bench, {}, "pool")).in_force.pool == "code"


async def test_a_lambda_with_reserved_cores_stays_in_its_pool_until_they_are_given_back(bench: Bench) -> None:
    await bench.register(pool="gpu")
    await set_(bench, cores=2, reserve={LAMBDA: 1})
    with pytest.raises(FailedPrecondition, match=f"cores of the pool gpu .* atf capacity set gpu --reserve {LAMBDA}=0"):
        await move(bench, "none")
    assert (await move(bench, "gpu")).in_force.pool == "gpu"
    await set_(bench, reserve={LAMBDA: 0})
    assert (await move(bench, "none")).in_force.pool == ""
    await set_(bench, "", cores=2, reserve={LAMBDA: 1})
    with pytest.raises(FailedPrecondition, match=r"cores of the pool default .* atf capacity set default"):
        await set_lambda(bench, {}, "all")


async def test_reserved_cores_of_a_lambda_whose_code_has_left_are_shown(bench: Bench) -> None:
    await bench.register(pool="gpu")
    await bench.register("photos/resize", pool="gpu")
    await set_(bench, cores=3, reserve={LAMBDA: 1, "photos/resize": 1})
    assert list((await get(bench)).away) == []
    await bench.register(pool="cpu")
    assert list((await get(bench)).away) == [LAMBDA]


async def test_a_change_that_others_overtake_is_made_on_top_of_theirs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_(bench, cores=2)
    direct = bench.store.set_capacity
    overtaken: list[int] = []

    async def overtake(pool: str, version: int, *args: Any, **fields: Any) -> int:
        if not overtaken:
            overtaken.append(version)
            record = await bench.store.get_capacity(pool)
            assert record is not None
            await direct(pool, version, record.state.replace(b'"lookahead":3', b'"lookahead":7'))
        return await direct(pool, version, *args, **fields)

    monkeypatch.setattr(bench.store, "set_capacity", overtake)
    found = await set_(bench, cores=5)
    assert (len(found.cores), found.lookahead) == (5, 7)

    async def never(*_: Any, **__: Any) -> int:
        return 0

    monkeypatch.setattr(bench.store, "set_capacity", never)
    with pytest.raises(Unavailable, match="others change"):
        await set_(bench, cores=6)
