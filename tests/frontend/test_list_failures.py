"""ListFailures, and the retry of exactly one of its groups."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import InvalidArgument, UnknownLambda
from atf.rpc import frontend_pb2 as f
from atf.sdk.messages import of_lambda
from atf.store.values.claims import Outcome

from .conftest import Bench

NAME = "photos/thumbnail"


def error(kind: str, message: str) -> str:
    frame = '  File "/srv/photos/resize.py", line 3, in shrink\n    open(path)\n'
    return f"{kind}: {message}\nTraceback (most recent call last):\n{frame}"


async def dead(bench: Bench, *errors: str) -> list[str]:
    ids = [await bench.schedule(f"{number}-{said[:3]}") for number, said in enumerate(errors)]
    for each, said in zip(ids, errors, strict=True):
        await bench.finish(each, Outcome.FAILED_FATAL, error=said)
    return ids


async def listed(bench: Bench, **fields: Any) -> list[f.FailureGroup]:
    return list((await bench.frontend.list_failures(f.ListFailuresRequest(**fields))).groups)


async def test_a_group_says_why_where_and_how_many(bench: Bench) -> None:
    ids = await dead(bench, error("OSError", "a.png"), error("OSError", "b.png"), error("KeyError", "'c'"))
    by_type = {each.error_type: each for each in await listed(bench)}
    group = by_type["OSError"]
    assert (getattr(group, "lambda"), group.place, group.count) == (NAME, "photos/resize.py:shrink", 2)
    assert group.task_id in ids[:2]
    assert group.message in {"a.png", "b.png"}
    assert group.id == (await bench.stored(ids[0])).failure_group != by_type["KeyError"].id
    assert [each.id for each in await listed(bench, **{"lambda": "photos/*"})] == [each.id for each in by_type.values()]
    assert await listed(bench, since_at_us=group.last_at_us + 1) == []


async def test_pages_of_groups_go_on_behind_one_another(bench: Bench) -> None:
    await dead(bench, *(error(f"Error{number}", "") for number in range(3)))
    all_of_them, request = await listed(bench), f.ListFailuresRequest(page_size=1)
    found: list[f.FailureGroup] = []
    for _ in range(5):
        reply = await bench.frontend.list_failures(request)
        found += reply.groups
        request.page_token = reply.next_page_token
        if not request.page_token:
            break
    assert found == all_of_them
    assert len(found) == 3


@pytest.mark.parametrize("lambda_name", ["", NAME])
async def test_exactly_a_group_is_retried(bench: Bench, lambda_name: str) -> None:
    ids = await dead(bench, error("OSError", "a"), error("KeyError", "b"))
    group = (await bench.stored(ids[0])).failure_group
    asked = f.TaskFilter(failure_group=group, **of_lambda(lambda_name))
    request = f.RedriveRequest(filter=asked, who="ada", dry_run=True)
    reply = await bench.frontend.redrive(request)
    assert (reply.matched, list(reply.ids), reply.looked_at) == (1, ids[:1], 1)
    request.dry_run = False
    assert (await bench.frontend.redrive(request)).redriven == 1
    assert await bench.counts() == {"NEW": 1, "FATAL_FAILURE": 1}
    assert [each.error_type for each in await listed(bench)] == ["KeyError"]
    assert (await bench.frontend.redrive(request)).matched == 0
    assert "of the group " + group in str(await bench.audit())


async def test_what_is_no_group_is_refused(bench: Bench) -> None:
    await bench.register()
    with pytest.raises(InvalidArgument, match="failure_group 'x y': give the id of a group, as atf failures shows it"):
        await bench.frontend.redrive(
            f.RedriveRequest(filter=f.TaskFilter(failure_group="x y"), who="ada", dry_run=True)
        )
    with pytest.raises(InvalidArgument, match="page_token 'x'"):
        await listed(bench, page_token="x")
    with pytest.raises(UnknownLambda):
        await listed(bench, **{"lambda": "photos/none"})
