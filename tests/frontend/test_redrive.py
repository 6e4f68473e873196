"""Redrive: which dead letters a filter takes, when they are due, what is refused, what is written down."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.values.claims import Outcome
from atf.task import US, Status

from .conftest import START_US, Bench

NAME = "photos/thumbnail"


def redrive(**fields: Any) -> f.RedriveRequest:
    asked = {"lambda": NAME, **fields.pop("filter", {})}
    return f.RedriveRequest(**{"filter": asked, "who": "ada", "dry_run": False, **fields})


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that few tasks fill."""
    monkeypatch.setattr("atf.frontend.redrive.MAX_BATCH", 4)


async def dead(bench: Bench, *names: str, error: str = "it rained", **spec: Any) -> list[str]:
    ids = [await bench.schedule(name, **spec) for name in names]
    for each in ids:
        await bench.finish(each, Outcome.FAILED_FATAL, error=error)
    return ids


async def test_a_dry_run_starts_nothing_and_says_what_would_be_started(bench: Bench) -> None:
    ids = await dead(bench, "a", "b")
    reply = await bench.frontend.redrive(redrive(dry_run=True))
    assert (reply.matched, reply.redriven, reply.looked_at, dict(reply.errors)) == (2, 0, 2, {"it rained": 2})
    assert sorted(reply.ids) == sorted(ids)
    assert await bench.counts() == {"FATAL_FAILURE": 2}
    assert not await bench.audit()


async def test_nothing_is_started_where_it_is_not_said_whether_to(bench: Bench) -> None:
    await dead(bench, "a")
    request = redrive()
    request.ClearField("dry_run")
    with pytest.raises(InvalidArgument, match="dry_run is not said: true only says"):
        await bench.frontend.redrive(request)
    assert await bench.counts() == {"FATAL_FAILURE": 1}


@pytest.mark.usefixtures("small_pages")
async def test_so_many_a_second_become_due_over_all_pages(bench: Bench) -> None:
    await dead(bench, *(f"t{number}" for number in range(9)))
    request, due = redrive(rate=10), []
    while True:
        reply = await bench.frontend.redrive(request)
        due.append(reply.last_due_at_us)
        request.page_token = reply.next_page_token
        if not request.page_token:
            break
    assert max(due) == START_US + round(0.8 * US)
    assert await bench.counts() == {"NEW": 9}
    listed = await bench.frontend.list_tasks(
        f.ListTasksRequest(filter=cast("Any", {"lambda": NAME, "statuses": [t.NEW]}), page_size=256)
    )
    assert sorted(each.next_at_us for each in listed.tasks) == [START_US + number * US // 10 for number in range(9)]
    entries = await bench.audit()
    assert [(each.what, each.detail, len(each.tasks)) for each in entries] == [
        ("redrive", "10 a second", 1),
        ("redrive", "10 a second", 4),
        ("redrive", "10 a second", 4),
    ]


@pytest.mark.usefixtures("small_pages")
async def test_what_fails_again_meanwhile_is_not_redriven_again(bench: Bench) -> None:
    ids = await dead(bench, *(f"t{number}" for number in range(9)))
    bench.clock.advance(1)
    request, redriven = redrive(), 0
    while True:
        reply = await bench.frontend.redrive(request)
        redriven += reply.redriven
        request.page_token = reply.next_page_token
        bench.clock.advance(1)
        for record in await bench.store.get_tasks(ids):
            assert record is not None
            if record.status is Status.NEW:
                await bench.finish(record.id, Outcome.FAILED_FATAL, error="again")
        if not request.page_token:
            break
    assert redriven == 9
    assert await bench.counts() == {"FATAL_FAILURE": 9}
    assert (await bench.frontend.redrive(redrive(dry_run=True))).errors == {"again": 4}, "the next redrive finds them"


@pytest.mark.usefixtures("small_pages")
async def test_a_redrive_begins_with_its_first_page_whether_that_has_a_match_or_not(bench: Bench) -> None:
    ids = await dead(bench, *(f"t{number}" for number in range(9)))
    bench.clock.advance(1)
    request = redrive(error="storm")
    request.page_token = (await bench.frontend.redrive(request)).next_page_token
    assert request.page_token
    await bench.store.retry_tasks(ids)
    bench.clock.advance(1)
    for each in ids:
        await bench.finish(each, Outcome.FAILED_FATAL, error="storm")
    while request.page_token:
        reply = await bench.frontend.redrive(request)
        assert (reply.matched, reply.redriven) == (0, 0)
        request.page_token = reply.next_page_token


async def test_what_failed_on_a_server_whose_clock_is_ahead_is_redriven_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.store.now = None
    (ahead,) = await bench.store.link.masters()

    class Behind:
        async def command(self, *_: str) -> list[bytes]:
            seconds, micros = await ahead.command("TIME")
            return [b"%d" % (int(seconds) - 10), micros]

    async def masters() -> list[Any]:
        return [Behind(), ahead]

    await dead(bench, "a")
    monkeypatch.setattr(bench.store.link, "masters", masters)
    reply = await bench.frontend.redrive(redrive())
    assert (reply.looked_at, reply.matched, reply.redriven) == (1, 1, 1)


async def test_the_filter(bench: Bench) -> None:
    (web,) = await dead(bench, "web", labels={"team": "web", "x": "1"})
    (app,) = await dead(bench, "app", labels={"team": "app"}, error="Traceback\nTimeoutError: late")
    bench.clock.advance(10)
    (late,) = await dead(bench, "late")

    async def found(**fields: Any) -> set[str]:
        return set((await bench.frontend.redrive(redrive(dry_run=True, **fields))).ids)

    assert await found() == {web, app, late}
    assert await found(filter={"labels": {"team": "web"}}) == {web}
    assert await found(filter={"labels": {"team": "web", "x": "2"}}) == set()
    assert await found(error="TimeoutError") == {app}
    assert await found(filter={"since_at_us": START_US + 5 * US}) == {late}
    assert await found(filter={"until_at_us": START_US + 5 * US}) == {web, app}


async def test_only_what_an_older_version_failed_at(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="says no version"):
        await bench.frontend.redrive(redrive(newer_version=True))
    await bench.register(version=1)
    (old,) = await dead(bench, "old")
    await bench.register(version=2)
    await dead(bench, "new")
    reply = await bench.frontend.redrive(redrive(newer_version=True))
    assert (reply.matched, reply.redriven, list(reply.ids)) == (1, 1, [old])
    assert await bench.counts() == {"NEW": 1, "FATAL_FAILURE": 1}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"who": ""}, "who: say who"),
        ({"rate": -1.0}, "rate -1.0"),
        ({"rate": math.nan}, "rate nan"),
        ({"rate": math.inf}, "rate inf"),
        ({"error": "x" * 501}, "error: 501 characters"),
        (
            {"filter": {"since_at_us": 3_600 * US, "until_at_us": US}},
            "from 1970-01-01T01:00:00Z until 1970-01-01T00:00:01Z: give first the earlier instant",
        ),
        ({"filter": {"since_at_us": 9, "until_at_us": 9}}, "give first the earlier instant"),
        ({"filter": {"since_at_us": -1}}, "since_at_us -1"),
        ({"page_token": "x"}, "page_token"),
    ],
)
async def test_what_makes_no_sense_is_refused(bench: Bench, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        await bench.frontend.redrive(redrive(**fields))
