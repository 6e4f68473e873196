"""What a batch and its items may be, and what becomes of them before the store sees them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from atf.errors import InvalidArgument, UnknownLambda
from atf.frontend.batch_items import ItemTemplate, varint
from atf.frontend.lambdas import KnownLambda
from atf.frontend.new_batch import completed, digest, lambdas_of, needs_single_partition
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.sdk.work_items import digest_of
from atf.store.values.batches import ItemTerms
from atf.store.values.lambdas import LambdaRecord
from atf.task import US

NAME = "photos/thumbnail"


class Registered:
    """Stands for the copy of the registry."""

    def __init__(self, *specs: f.LambdaSpec) -> None:
        self._known = {
            each.name: KnownLambda(LambdaRecord(each.name, b"", 1, 1, paused=False), each)
            for each in (f.LambdaSpec(name=NAME), f.LambdaSpec(name="atf/command"), *specs)
        }

    def get(self, name: str) -> KnownLambda:
        if name not in self._known:
            raise UnknownLambda(f"no lambda {name!r} is registered")
        return self._known[name]


def spec_of(name: str) -> dict[str, Any]:
    return {"lambda": name}


def spec(**fields: Any) -> b.BatchSpec:
    return b.BatchSpec(**{"lambda": NAME, **fields})


def complete(asked: b.BatchSpec, *specs: f.LambdaSpec) -> b.BatchSpec:
    return completed(asked, Registered(*specs), 10, 100)  # type: ignore[arg-type]


def callback(name: str = NAME, /, **fields: Any) -> b.Callback:
    task = t.TaskSpec(**{"lambda": name, **fields.pop("task", {})})
    return b.Callback(**{"when": b.Callback.COMPLETION, "task": task, **fields})


def partition_for(text: str) -> int:
    return len(text) % 5


def item(asked: b.BatchSpec, number: int = 0, **fields: Any) -> Any:
    template = ItemTemplate("b-1", complete(asked), partition_for, single_partition=needs_single_partition(asked))
    partition, made = template.item(number, b.BatchItem(**fields))
    return partition, made, t.TaskSpec.FromString(made.spec)


# --- the description --------------------------------------------------------------------------------------------------


def test_what_is_open_is_filled_in() -> None:
    known = f.LambdaSpec(name=NAME, options=t.TaskOptions(priority=2, timeout_us=US, max_attempts=3))
    made = complete(spec(options=t.TaskOptions(retention_us=5)), known)
    options = made.options
    assert (options.priority, options.timeout_us, options.max_attempts, options.retention_us) == (2, US, 3, 5)
    assert options.HasField("backoff")


def test_attempts_of_items_have_a_bound_of_their_own() -> None:
    made = complete(spec(options=t.TaskOptions(max_attempts=50), callbacks=[callback(task={})]))
    assert made.options.max_attempts == 10
    asked = callback(task={"options": t.TaskOptions(max_attempts=500)})
    assert complete(spec(callbacks=[asked])).callbacks[0].task.options.max_attempts == 100


def test_items_have_the_terms_of_their_batch() -> None:
    options = t.TaskOptions(priority=2, max_attempts=3, max_losses=5)
    asked = complete(spec(options=options, pause_us=US))
    assert ItemTemplate("b-1", asked, partition_for, single_partition=True).terms == ItemTerms(NAME, 2, 3, 5, US)


def test_callbacks_are_filled_in_too_and_those_behind_them() -> None:
    other = f.LambdaSpec(name="photos/other", options=t.TaskOptions(priority=7))
    made = complete(spec(callbacks=[callback(then=[callback("photos/other")])]), other)
    assert made.callbacks[0].then[0].task.options.priority == 7
    assert lambdas_of(made) == {NAME, "photos/other"}


def test_what_no_rule_knows_is_not_kept() -> None:
    asked = b.BatchSpec.FromString(spec().SerializeToString() + b"\xfa\x7f\x03abc")
    assert complete(asked) == complete(spec())


def test_two_descriptions_are_told_apart() -> None:
    assert digest(spec()) == digest(spec()) != digest(spec(workers=1))


@pytest.mark.parametrize(
    ("asked", "alone"), [({}, False), ({"max_in_flight": 1}, True), ({"pause_us": 1}, True), ({"workers": 1}, True)]
)
def test_items_that_share_keys_lie_together(asked: dict[str, Any], alone: bool) -> None:
    assert needs_single_partition(spec(**asked)) is alone


def _chain(links: int) -> b.Callback:
    last = callback()
    for _ in range(links - 1):
        last = callback(then=[last])
    return last


BAD: dict[str, tuple[Callable[[], b.BatchSpec], str]] = {
    "lambda": (lambda: b.BatchSpec(**spec_of("thumbnail")), "lambda 'thumbnail': write namespace/name"),
    "labels": (lambda: spec(labels={"": "x"}), "label '' = 'x'"),
    "affinity": (lambda: spec(affinity_key="a\nb"), "affinity_key 'a.nb'"),
    "max_in_flight": (lambda: spec(max_in_flight=-1), "max_in_flight -1: at least 0"),
    "pause": (lambda: spec(pause_us=86_400 * US + 1), "pause_us 86400000001: at most a day"),
    "workers": (lambda: spec(workers=1_001), "workers 1001: at most 1000"),
    "both": (lambda: spec(workers=2, max_in_flight=2), "max_in_flight 2 and workers 2"),
    "options": (lambda: spec(options=t.TaskOptions(max_attempts=0)), "max_attempts 0"),
    "many callbacks": (lambda: spec(callbacks=[callback()] * 9), "callbacks: 9 of them, at most 8"),
    "many behind one": (lambda: spec(callbacks=[callback(then=[callback()] * 9)]), r"callbacks\[0\].then: 9 of them"),
    "long chain": (lambda: spec(callbacks=[_chain(65)]), "callbacks: more than 64"),
    "when": (lambda: spec(callbacks=[callback(when=0)]), r"callbacks\[0\]: when 0: use SUCCESS_OF_ALL"),
    "gives": (lambda: spec(callbacks=[callback(gives=3)]), "gives 3: use SUMMARY"),
    "parameter": (lambda: spec(callbacks=[callback(parameter="a b")]), "parameter 'a b'"),
    "unwrap": (lambda: spec(callbacks=[callback(unwrap=True)]), "unwrap: it is for RESULTS"),
    "keyed": (lambda: spec(callbacks=[callback(task={"ordering_key": "k"})]), "task: a callback has no ordering_key"),
    "raw": (lambda: spec(callbacks=[callback(task={"encoding": t.RAW})]), "task.encoding"),
    "payload": (
        lambda: spec(callbacks=[callback(task={"payload": b"[1]"})]),
        "task.payload: give the arguments by name",
    ),
    "no JSON": (lambda: spec(callbacks=[callback(task={"payload": b'{"\xff":1}'})]), "task.payload"),
    "deep": (lambda: spec(callbacks=[callback(then=[callback(when=9)])]), r"callbacks\[0\].then\[0\]: when 9"),
    "large": (lambda: spec(callbacks=[callback(task={"payload": b"{}" + b" " * (1 << 20)})]), "spec: 10.* bytes"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_description_that_breaks_a_rule_is_refused(kind: str) -> None:
    made, says = BAD[kind]
    with pytest.raises(InvalidArgument, match=says):
        complete(made())


def test_a_callback_of_an_unknown_lambda_is_refused() -> None:
    with pytest.raises(UnknownLambda, match="photos/none"):
        complete(spec(callbacks=[callback("photos/none")]))


def test_a_callback_that_is_given_nothing_has_any_arguments() -> None:
    asked = callback(gives=b.Callback.NOTHING, task={"payload": b"\xff", "encoding": t.RAW})
    assert complete(spec(callbacks=[asked])).callbacks[0].task.payload == b"\xff"


# --- the items --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 127, 128, 20_000, 99_999_999])
@pytest.mark.parametrize("size", [0, 1, 100, 200, 20_000])
def test_an_item_is_a_task_of_the_template_with_its_own_arguments(number: int, size: int) -> None:
    payload = b'{"path":"%s"}' % (b"a" * size)
    partition, made, task = item(spec(labels={"team": "web"}, affinity_key="near"), number, payload=payload)
    expected = t.TaskSpec(
        payload=payload, labels={"team": "web"}, affinity_key="near", options=complete(spec()).options
    )
    setattr(expected, "lambda", NAME)
    expected.batch.CopyFrom(t.BatchInfo(id="b-1", number=number))
    assert task == expected
    assert made.number == number
    assert made.md5 == digest_of(NAME, [f'"{"a" * size}"'])
    assert partition == partition_for(f"b-1.{made.md5}")


@pytest.mark.parametrize("number", [0, 127, 128, 16_383, 16_384, 1 << 62])
def test_numbers_are_written_as_protocol_buffers_write_them(number: int) -> None:
    assert b"\x10" + varint(number) == t.BatchInfo(number=number).SerializeToString()


def test_the_texts_that_a_caller_gives_make_the_work_item_id() -> None:
    _, made, task = item(spec(), payload=b'{"b":1,"a":2}', arguments=["2", "1"])
    assert made.md5 == digest_of(NAME, ["2", "1"])
    assert task.payload == b'{"b":1,"a":2}'


def test_an_item_of_a_program_is_a_command_line() -> None:
    asked = b.BatchSpec(**spec_of("atf/command"))
    _, made, task = item(asked, arguments=["echo", "grüß dich", "\n"])
    assert task.payload == '{"argv":["echo","grüß dich","\\n"]}'.encode()
    assert made.md5 == digest_of("atf/command", ["echo", "grüß dich", "\n"])


def test_items_are_dealt_to_workers_one_by_one() -> None:
    for number, chunk in enumerate((0, 1, 2, 0)):
        partition, made, task = item(spec(workers=3), number, payload=b"{}")
        assert (task.concurrency.key, task.concurrency.limit, task.affinity_key) == (f"b-1.{chunk}", 1, f"b-1.{chunk}")
        assert made.concurrency.split() == [f"{NAME}:b-1.{chunk}", "1", "0"]
        assert partition == partition_for("b-1")
    assert item(spec(workers=3, affinity_key="near"), payload=b"{}")[2].affinity_key == "near"


def test_so_many_of_a_batch_run_at_once() -> None:
    partition, made, task = item(spec(max_in_flight=7), payload=b"{}")
    assert (task.concurrency.key, task.concurrency.limit) == ("b-1", 7)
    assert made.concurrency.split() == [f"{NAME}:b-1", "7", "0"]
    assert partition == partition_for("b-1")


def test_items_of_one_target_follow_each_other_with_a_pause() -> None:
    partition, made, task = item(spec(pause_us=US), payload=b"{}", target="example.com")
    assert made.ordering_key == task.ordering_key == "b-1.example.com"
    assert partition == partition_for("b-1")


COMMAND = {"lambda": "atf/command"}
BAD_ITEMS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no object": ({}, {"payload": b"[]"}, "payload: give the arguments by name as a JSON object"),
    "large": (
        {},
        {"payload": b'{"a":"%s"}' % (b"a" * (1 << 20))},
        r"payload: 1048584 bytes, at most 1048576 \(1 MiB\)",
    ),
    "no target": ({"pause_us": 1}, {"payload": b"{}"}, "target: it has none, and the batch has a pause"),
    "bad target": ({"pause_us": 1}, {"payload": b"{}", "target": "a/b"}, "target 'a/b'"),
    "payload of a program": (
        COMMAND,
        {"payload": b"{}", "arguments": ["a"]},
        "payload: an item of atf/command has none",
    ),
    "no program": (COMMAND, {}, "arguments: 0 of them"),
    "empty program": (COMMAND, {"arguments": ["", "a"]}, "arguments: 2 of them"),
    "many arguments": (COMMAND, {"arguments": ["a"] * 1_001}, "arguments: 1001 of them"),
    "long arguments": (COMMAND, {"arguments": ["a", "b" * (32 << 10)]}, "arguments: more than 32768 bytes"),
    "null": (COMMAND, {"arguments": ["a", "b\0"]}, "arguments: an argument of a program can't hold a null character"),
}


@pytest.mark.parametrize("kind", BAD_ITEMS)
def test_an_item_that_breaks_a_rule_is_refused_by_its_number(kind: str) -> None:
    asked, fields, says = BAD_ITEMS[kind]
    with pytest.raises(InvalidArgument, match=f"item 7: {says}"):
        item(spec(**asked), 7, **fields)


def test_a_batch_has_so_many_items_and_no_more() -> None:
    with pytest.raises(InvalidArgument, match="item 100000000: a batch has at most 100000000 items"):
        item(spec(), 100_000_000, payload=b"{}")
