"""What the store consumer knows of the arguments that lambdas declare for search."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from atf.errors import Unavailable
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.messages import of_lambda
from atf.store_consumer.searched import SearchedArguments, entries_of


class Registry:
    """Answers with what it was given; or not at all."""

    def __init__(self) -> None:
        self.records: Mapping[str, Any] = {}
        self.asked, self.away = 0, False

    def declares(self, **names: list[str]) -> None:
        self.records = {
            name: SimpleNamespace(spec=f.LambdaSpec(search=search).SerializeToString())
            for name, search in names.items()
        }

    async def list_lambdas(self) -> Mapping[str, Any]:
        self.asked += 1
        if self.away:
            raise Unavailable("away")
        return self.records


async def test_it_asks_once_a_second_and_keeps_what_it_knows_while_the_registry_is_away() -> None:
    registry, now_s = Registry(), [0.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0])
    searched = SearchedArguments(store=cast("Any", registry), runtime=cast("Any", clock))
    registry.declares(a=["x"], b=[])
    assert await searched.declared() == {"a": ["x"]}
    registry.declares(a=["x", "y"])
    assert (await searched.declared(), registry.asked) == ({"a": ["x"]}, 1)
    now_s[0] += 1
    assert await searched.declared() == {"a": ["x", "y"]}
    registry.away, now_s[0] = True, now_s[0] + 1
    assert await searched.declared() == {"a": ["x", "y"]}


async def test_a_damaged_description_declares_nothing() -> None:
    registry = Registry()
    registry.records = {"a": SimpleNamespace(spec=b"\xff")}
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    assert await SearchedArguments(store=cast("Any", registry), runtime=cast("Any", clock)).declared() == {}


def test_entries_are_those_of_the_declared_arguments() -> None:
    spec = t.TaskSpec(payload=b'{"x": 7, "y": "a b", "z": 1}', **of_lambda("a"))
    assert entries_of(spec, {"a": ["x", "y"]}) == "x=7 y=a%20b"
    assert entries_of(spec, {"b": ["x"]}) == ""
