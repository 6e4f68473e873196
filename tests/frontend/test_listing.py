"""Lists by search: what lambdas declare is found, whichever way the task was made."""

from __future__ import annotations

import pytest

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f

from .conftest import Bench

NAME = "photos/thumbnail"


async def found(bench: Bench, lambda_name: str = "", group: str = "", **search: str) -> set[str]:
    asked = f.TaskFilter(search=search, failure_group=group, **{"lambda": lambda_name})  # type: ignore[arg-type]
    return {each.id for each in (await bench.frontend.list_tasks(f.ListTasksRequest(filter=asked))).tasks}


async def test_tasks_are_found_by_the_arguments_that_their_lambda_declares(bench: Bench) -> None:
    await bench.register(search=["order", "note"])
    first = await bench.schedule("a", payload=b'{"order": 7, "note": "caf\xc3\xa9 au lait", "more": [1]}')
    second = await bench.schedule("b", payload=b'{"order": 7}')
    await bench.schedule("c", payload=b'{"order": "8"}')
    assert await found(bench, order="7") == await found(bench, NAME, order="7") == {first, second}
    assert await found(bench, "photos/*", order="7", note="café au lait") == {first}
    assert await found(bench, order="9") == set()
    assert await found(bench, group="none") == set()


async def test_what_nobody_declares_can_not_be_searched(bench: Bench) -> None:
    await bench.register(search=["order"])
    for lambda_name, message in (
        ("", "no lambda declares user; its code has to: @app.task"),
        (NAME, "photos/thumbnail does not declare user"),
        ("post/*", "no lambda declares"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            await found(bench, lambda_name, user="ada")
    for search, group, message in (
        ({"": "x"}, "", "name 0"),
        ({"order": "x" * 4_097}, "", "value 4097"),
        ({str(each): "" for each in range(9)}, "", "9 arguments"),
        ({}, "a b", "failure_group 'a b'"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            await found(bench, "", group, **search)


async def test_a_registration_may_not_search_what_it_redacts(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="search: 'order' is redacted"):
        await bench.register(search=["order"], redact=["order"])
    with pytest.raises(InvalidArgument, match="search: 9 names"):
        await bench.register(search=[str(each) for each in range(9)])
