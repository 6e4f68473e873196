"""The load: the same tasks for a seed, each called for until it is accepted, and counted only then."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, cast

import pytest

from atf.client import AsyncClient, Handle
from atf.errors import InvalidArgument, Unavailable
from atf.sdk.schedulable import Prepared
from atf.verify import load as module
from atf.verify.events import Accepted, Called
from atf.verify.load import Load, PlannedTask, Stream, planned


def some(count: int, seed: int, load: Load | None = None) -> list[PlannedTask]:
    return list(itertools.islice(planned(load or Load(), seed, "p"), count))


def test_a_seed_makes_the_same_tasks() -> None:
    assert some(500, 7) == some(500, 7)
    assert some(500, 7) != some(500, 8)


def test_the_shares_are_kept_about() -> None:
    load = Load(long_share=0.1, delayed_share=0.2, failing_share=0.3)
    tasks = some(4_000, 1, load)
    assert 300 < sum(each.seconds > load.short_s for each in tasks) < 500
    assert 650 < sum(each.delay > 0 for each in tasks) < 950
    assert 1_050 < sum(each.fails > 0 for each in tasks) < 1_350
    assert 1_800 < sum(each.aio for each in tasks) < 2_200
    assert len({each.key for each in tasks}) == 4_000


class Client:
    """Answers as it is told, call by call, then accepts."""

    def __init__(self, *answers: Exception, always: Exception | None = None) -> None:
        self.answers, self.always = list(answers), always
        self.calls: list[list[str]] = []

    async def schedule_many(self, tasks: Sequence[Prepared[Any]]) -> list[Handle[Any]]:
        ids = [each.request.id for each in tasks]
        self.calls.append(ids)
        if self.answers:
            raise self.answers.pop(0)
        if self.always is not None:
            raise self.always
        client: Any = self
        return [Handle(client, client, f"3-{each}", None) for each in ids]


def stream(client: Client, load: Load, monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.setattr(module, "_AGAIN_S", 0.0)
    return Stream(cast("AsyncClient", client), "v", load, planned(load, 1, "p"))


async def test_what_is_not_answered_is_called_again_with_the_same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(Unavailable("away"), Unavailable("away"))
    found = stream(client, Load(delayed_share=1, delay_s=2), monkeypatch)
    found.send(2)
    await found.wait_accepted(5)
    assert client.calls == [["p-0", "p-1"]] * 3
    assert found.accepted == {"p-0": "3-p-0", "p-1": "3-p-1"}
    assert found.refused == {"Unavailable": 2}
    kinds = [type(each) for each in found.events]
    assert kinds == [Called, Called, Accepted, Accepted]


async def test_a_task_is_due_by_the_clock_of_before_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    instants = itertools.count(1_000_000_000, 1_000_000)
    monkeypatch.setattr(module, "wall_us", lambda: next(instants))
    found = stream(Client(Unavailable("away")), Load(delayed_share=1), monkeypatch)
    found.send(1)
    await found.wait_accepted(5)
    (accepted,) = [each for each in found.events if isinstance(each, Accepted)]
    assert accepted.due_us == 1_000_000_000 + round(found.plans["p-0"].delay * 1e6)


async def test_what_was_never_answered_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stream(Client(always=Unavailable("away")), Load(), monkeypatch)
    found.send(3)
    await found.wait_accepted(0.0)
    assert (len(found.called), found.accepted) == (3, {})


async def test_a_refusal_that_stays_one_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stream(Client(InvalidArgument("no")), Load(), monkeypatch)
    found.send(1)
    with pytest.raises(InvalidArgument):
        await found.wait_accepted(5)


async def test_the_stream_keeps_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that the test winds: every look is 20 ms after the one before."""
    instants = itertools.count(1_000_000, 20_000)
    now = [0]

    pause = asyncio.sleep

    async def tick(_seconds: float) -> None:
        await pause(0)
        await pause(0)
        now[0] = next(instants)
        if now[0] > 3_000_000:
            raise asyncio.CancelledError

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(asyncio, "sleep", tick)
    monkeypatch.setattr(loop, "time", lambda: now[0] / 1e6)
    monkeypatch.setattr(module, "now_us", lambda: now[0])
    now[0] = next(instants)
    found = stream(Client(), Load(rate=250), monkeypatch)
    with pytest.raises(asyncio.CancelledError):
        await found.run()
    await found.wait_accepted(0)
    assert len(found.called) == 500
    assert 245 < found.per_second < 255
