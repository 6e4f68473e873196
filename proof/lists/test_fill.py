"""Copies of a task are what the store's functions would have written of it at another instant."""

from __future__ import annotations

from typing import Any

import pytest

from atf.config.settings import StoreSettings, Timing
from atf.embedded import find_binary
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.task import US
from tests.store.servers import running
from tests.store.world import Dump, dump

from . import fill, models

pytestmark = pytest.mark.processes
BEGAN_US, STEP_US, COPIES = 1_800_000_000 * US, 70 * US, 3
RANKS = (1, models.LAMBDAS - 1)
_NOT_COPIED = ("}", ":roster", ":due", ":lambdas")
"""How far TIME has come, who calls, when queues are looked at, and names: the same for any number of tasks."""


async def _open(server: Any) -> Store:
    return await Store.open(StoreSettings(redis_url=server.url, partitions=1), Timing(), SystemRuntime())


async def _run(store: Store, rank: int, ids: list[str], at_us: int) -> list[str]:
    """Has one task of each kind go its way."""
    store.now = lambda: at_us
    kinds = models.kinds(rank)
    made = [
        models.new_task(rank, kind, task_id, at_us + 3_600 * US if kind.end == "NEW" else None)
        for kind, task_id in zip(kinds, ids, strict=True)
    ]
    tasks = [each._replace(digest=b"\x80same") for each in made]
    await models.run(store, tasks, dict(zip((each.stored_id for each in tasks), kinds, strict=True)), "nonce")
    await store.link.command("DEL", "atf:{0}:ask:nonce", key="atf:{0}")  # the next run's claims bear the same one
    store.now = None
    return [each.stored_id for each in tasks]


def _of_tasks(found: Dump) -> dict[str, Any]:
    """What there is of tasks; a queue's count of pushes and a lambda's record are no task's."""
    kept = {
        key: value
        for key, (_, value) in found.data.items()
        if not key.endswith(_NOT_COPIED) and not any(each in key for each in (":q:", ":l:", "rq:"))
    }
    for key, value in kept.items():
        if ":t:" in key:
            value.pop("e", None)  # the number of its entry in a queue: of how many the queue was pushed before
    return kept


@pytest.mark.parametrize("rank", RANKS)
async def test_copies_are_what_the_functions_write(rank: int) -> None:
    kinds = len(models.kinds(rank))
    with running(str(find_binary().path)) as here, running(str(find_binary().path)) as there:
        copied, called = await _open(here), await _open(there)
        for store in (copied, called):
            await models.register(store)
        first = [f"m{kind}" for kind in range(kinds)]
        tasks = await _run(copied, rank, first, BEGAN_US)
        assert await _run(called, rank, first, BEGAN_US) == tasks
        sets = fill.sets_of(here.client())
        for kind, task in enumerate(tasks):
            fill.copy(here.client(), fill.Part(task, kind * COPIES, COPIES, STEP_US, STEP_US), sets[task])
        for number in range(COPIES):
            ids = [f"a{kind * COPIES + number:023x}" for kind in range(kinds)]
            await _run(called, rank, ids, BEGAN_US + (number + 1) * STEP_US)
        expected, found = _of_tasks(await dump(called)), _of_tasks(await dump(copied))
        assert len([key for key in expected if ":t:" in key]) == kinds * (1 + COPIES)
        assert found == expected
        for store in (copied, called):
            await store.close()


def test_what_is_planned_comes_to_the_number_asked_for() -> None:
    found = [models.Model(f"0-m{rank}", models.weight(rank)) for rank in range(models.LAMBDAS)]
    planned = fill.parts(found, 100_000)
    assert sum(each.copies for each in planned) == pytest.approx(100_000, abs=2 * models.LAMBDAS)
    assert [each.first for each in planned] == [sum(of.copies for of in planned[:at]) for at in range(len(planned))]
    last = planned[-1]
    assert last.by_us + (last.copies - 1) * last.step_us <= 20 * 3_600 * US


def test_kinds_come_to_all_tasks_of_a_lambda() -> None:
    for rank in range(models.LAMBDAS):
        assert sum(each.share for each in models.kinds(rank)) == pytest.approx(1)
        assert models.kinds(rank)[0].share > 0.5
    assert sum(map(models.weight, range(models.LAMBDAS))) == pytest.approx(1)
