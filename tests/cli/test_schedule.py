"""`atf schedule`: what the flags become, and what is refused before anything is sent."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from atf.rpc import task_pb2 as t

from .conftest import Atf, FakeFrontend


def test_arguments_become_a_payload_by_name(atf: Atf, frontend: FakeFrontend) -> None:
    ran = atf(
        "schedule", "shop/mail", "-a", "to=ann", "-a", "copies=2", "-a", 'tags=["a"]', "-a", "note=a=b", "-a", 'x="NaN"'
    )

    assert ran.code == 0
    (request,) = frontend.asked
    assert getattr(request.spec, "lambda") == "shop/mail"
    assert json.loads(request.spec.payload) == {"to": "ann", "copies": 2, "tags": ["a"], "note": "a=b", "x": "NaN"}
    assert request.spec.encoding == t.JSON
    assert request.WhichOneof("when") is None
    assert ran.out == f"0-{request.id}\n"


def test_every_option_travels(atf: Atf, frontend: FakeFrontend) -> None:
    atf(
        "schedule", "shop/mail", "--payload", '{"to": "ann"}', "--delay", "5m", "--priority", "high", "--key", "k1",
        "--ordering-key", "ann", "--affinity-key", "cat", "--concurrency-key", "ann", "--concurrency-limit", "2", "--concurrency-policy", "skip",
        "--unique", "ann", "--window", "5m", "--debounce", "--label", "team=web", "--max-attempts", "3", "--timeout", "1.5",
    )  # fmt: skip

    (request,) = frontend.asked
    assert request.id == "k1"
    assert request.delay_us == 300_000_000
    assert request.spec.options.priority == 0
    assert request.spec.options.max_attempts == 3
    assert request.spec.options.timeout_us == 1_500_000
    assert (request.spec.ordering_key, request.spec.affinity_key) == ("ann", "cat")
    assert request.spec.concurrency == t.Concurrency(key="ann", limit=2, policy=t.Concurrency.SKIP)
    assert request.spec.unique == t.Unique(key="ann", window_us=300_000_000, policy=t.Unique.DEBOUNCE)
    assert dict(request.spec.labels) == {"team": "web"}


def test_what_is_not_given_is_left_to_the_lambda(atf: Atf, frontend: FakeFrontend) -> None:
    atf("schedule", "shop/mail")

    options = frontend.asked[0].spec.options
    assert not options.HasField("priority")
    assert not options.HasField("max_attempts")
    assert not options.HasField("timeout_us")


def test_two_tasks_get_two_ids(atf: Atf, frontend: FakeFrontend) -> None:
    atf("schedule", "shop/mail")
    atf("schedule", "shop/mail")

    assert frontend.asked[0].id != frontend.asked[1].id


def test_an_instant_with_a_zone(atf: Atf, frontend: FakeFrontend) -> None:
    atf("schedule", "shop/mail", "--at", "2030-01-31T08:00:00Z")

    assert frontend.asked[0].at_us == 1_896_076_800_000_000


def test_raw_bytes_are_sent_as_they_are(atf: Atf, frontend: FakeFrontend, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"\x00\xff")

    atf("schedule", "shop/mail", "--raw", "blob")

    assert frontend.asked[0].spec.payload == b"\x00\xff"
    assert frontend.asked[0].spec.encoding == t.RAW


def test_a_payload_may_come_from_stdin(atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"to": "bob"}')))

    atf("schedule", "shop/mail", "--payload", "-")

    assert json.loads(frontend.asked[0].spec.payload) == {"to": "bob"}


@pytest.mark.usefixtures("frontend")
def test_json_output(atf: Atf) -> None:
    ran = atf("schedule", "shop/mail", "--key", "k1", "--json")

    assert ran.json == {"id": "0-k1", "existed": False, "scheduled_at_us": 5, "durability": ""}


def test_durability_is_asked_for(atf: Atf, frontend: FakeFrontend) -> None:
    atf("schedule", "shop/mail", "--durability", "replicated")

    assert frontend.asked[0].durability == t.REPLICATED
    assert atf("schedule", "shop/mail", "--durability", "always").code == 2


@pytest.mark.usefixtures("frontend")
def test_wait_prints_the_result(atf: Atf) -> None:
    ran = atf("schedule", "shop/mail", "--key", "k1", "--wait", "--json")

    assert ran.code == 0
    assert ran.json["result"] == {"sent": True}
    assert ran.json["status"] == "SUCCESS"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mail"], "lambda 'mail': write namespace/name"),
        (["shop/mail", "-a", "to"], "-a 'to': write NAME=VALUE"),
        (["shop/mail", "-a", "to=a", "-a", "to=b"], "-a to: given twice"),
        (["shop/mail", "-a", "to=a", "--payload", "{}"], "give one of them"),
        (["shop/mail", "--payload", "[1]"], "give a JSON object"),
        (["shop/mail", "--payload", "{"], "--payload is no JSON"),
        (["shop/mail", "--payload", '{"x": NaN}'], "NaN is no JSON number"),
        (["shop/mail", "-a", "x=NaN"], "NaN is no JSON number; if the text is meant"),
        (["shop/mail", "-a", "x=[-Infinity]"], "-Infinity is no JSON number"),
        (["shop/mail", "-a", "x=1e999"], "1e999 is no JSON number"),
        (["shop/mail", "--raw", "nowhere"], "--raw nowhere: No such file or directory"),
        (["shop/mail", "--delay", "soon"], "'soon' is no duration"),
        (["shop/mail", "--delay", "1", "--at", "2030-01-01"], "--at and --delay: give one of them"),
        (["shop/mail", "--at", "tomorrow"], "--at 'tomorrow': write an instant"),
        (["shop/mail", "--priority", "urgent"], "use high, normal, low, or 0 to 9"),
        (["shop/mail", "--priority", "10"], "priority 10: use 0 (high) to 9"),
        (["shop/mail", "--key", "a\tb"], "--key 'a\\tb'"),
        (["shop/mail", "--key", ""], "--key ''"),
        (["shop/mail", "--ordering-key", "a\tb"], "--ordering-key 'a\\tb'"),
        (["shop/mail", "--affinity-key", "a\tb"], "--affinity-key 'a\\tb'"),
        (["shop/mail", "--concurrency-key", "a\tb"], "--concurrency-key 'a\\tb'"),
        (["shop/mail", "--unique", "a"], "--unique NAME and --window LENGTH: give both"),
        (["shop/mail", "--debounce"], "--unique NAME and --window LENGTH: give both"),
        (["shop/mail", "--unique", "a\tb", "--window", "1"], "--unique 'a\\tb'"),
        (["shop/mail", "--unique", "a", "--window", "0"], "unique window 0"),
        (["shop/mail", "--concurrency-limit", "2"], "of no use without --concurrency-key"),
        (["shop/mail", "--label", "x"], "--label 'x': write NAME=VALUE"),
        ([], "Missing argument 'LAMBDA'"),
        (["shop/mail", "--nonsense"], "No such option"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_sent(
    arguments: list[str], says: str, atf: Atf, frontend: FakeFrontend
) -> None:
    ran = atf("schedule", *arguments)

    assert ran.code == 2
    assert says in ran.err
    assert ran.err.startswith("atf: ")
    assert ran.err.count("\n") == 1
    assert ran.out == ""
    assert frontend.asked == []
