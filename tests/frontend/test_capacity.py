"""What operators set of a pool's cores, and what there is to see."""

from __future__ import annotations

from typing import Any

import pytest

from atf.cores import Pool
from atf.errors import AtfError, InvalidArgument, NotFound, Unavailable, UnknownLambda
from atf.rpc import frontend_pb2 as f
from atf.task import US

from .conftest import START_US, Bench

LAMBDA = "photos/thumbnail"


async def set_(bench: Bench, pool: str = "gpu", **fields: Any) -> f.Capacity:
    return await bench.frontend.set_capacity(f.SetCapacityRequest(pool=pool, **fields))


async def get(bench: Bench, pool: str = "gpu") -> f.Capacity:
    return await bench.frontend.get_capacity(f.GetCapacityRequest(pool=pool))


async def join(bench: Bench, *names: str) -> None:
    """Executors become members and are dealt into groups, as controllers do it."""
    found = await bench.store.cores("gpu", here=names, stay_us=60 * US)
    assert found is not None
    pool = Pool.decode(found.state)
    pool.staff(len(names), found.now_us)
    groups = [list(names[first :: pool.settings.cores]) for first in range(pool.settings.cores)]
    assert await bench.store.set_cores("gpu", found.version, pool.encode(), (groups, found.membership))


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


async def test_no_cores_at_all_is_how_every_pool_begins_and_may_end(bench: Bench) -> None:
    with pytest.raises(NotFound, match="its executors run whatever comes"):
        await get(bench)
    with pytest.raises(NotFound, match="atf capacity set POOL --cores N"):
        await set_(bench, lookahead=2)
    await set_(bench, cores=2)
    assert not (await set_(bench, cores=0)).cores
    await set_(bench, cores=0)
    with pytest.raises(NotFound):
        await get(bench)


async def test_a_changed_number_of_cores_keeps_claims_and_deals_the_groups_anew(bench: Bench) -> None:
    await set_(bench, cores=2)
    await join(bench, "e1", "e2", "e3", "e4", "e5")
    record = await bench.store.cores("gpu")
    assert record is not None
    pool = Pool.decode(record.state)
    for number in range(5):
        pool.claim(f"a/l{number}", record.now_us)
    await bench.store.set_cores("gpu", record.version, pool.encode())
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
        ({"cores": 2, "pool": "cpu", "reserve": {LAMBDA: 1}}, InvalidArgument, "runs in the pool 'gpu', not in 'cpu'"),
        ({"cores": 2, "pool": "no pool"}, InvalidArgument, "pool 'no pool'"),
        ({"cores": 2, "rotation_us": 0}, InvalidArgument, "rotation_us 0"),
    ],
)
async def test_bad_input_is_refused_and_changes_nothing(
    bench: Bench, fields: dict[str, Any], error: type[AtfError], says: str
) -> None:
    await bench.register(pool="gpu")
    with pytest.raises(error, match=says):
        await set_(bench, **{"pool": "gpu", **fields})
    assert await bench.store.pools() == []


async def test_a_change_that_others_overtake_is_made_on_top_of_theirs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_(bench, cores=2)
    direct = bench.store.set_cores
    overtaken: list[int] = []

    async def overtake(pool: str, version: int, *args: Any, **fields: Any) -> int:
        if not overtaken:
            overtaken.append(version)
            record = await bench.store.cores(pool)
            assert record is not None
            await direct(pool, version, record.state.replace(b'"lookahead":3', b'"lookahead":7'))
        return await direct(pool, version, *args, **fields)

    monkeypatch.setattr(bench.store, "set_cores", overtake)
    found = await set_(bench, cores=5)
    assert (len(found.cores), found.lookahead) == (5, 7)

    async def never(*_: Any, **__: Any) -> int:
        return 0

    monkeypatch.setattr(bench.store, "set_cores", never)
    with pytest.raises(Unavailable, match="others change"):
        await set_(bench, cores=6)
