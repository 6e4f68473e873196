from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import atf
from atf.rpc import task_pb2 as t
from atf.sdk.options import duration_us, instant_us
from atf.task import check_id, id_of_key

app = atf.App("photos")


@app.task(
    max_attempts=5,
    max_losses=2,
    timeout=timedelta(minutes=1),
    backoff=atf.Backoff(1, factor=3, max=60, jitter=0),
    retention=3600,
    priority="high",
    name="small",
    queue_limit=7,
    enqueue_timeout=2.5,
)
def thumbnail(ctx: atf.Context, path: str, *, size: int = 256) -> dict[str, int]:
    """Makes a small one."""
    return {path: size}


@app.task
def bare() -> None: ...


def test_a_lambda_is_registered_with_every_option_it_declares() -> None:
    spec = thumbnail.spec()
    assert spec.name == "photos/small"
    assert spec.signature == "(path: str, *, size: int = 256) -> dict[str, int]"
    assert (spec.queue_limit, spec.enqueue_timeout_us) == (7, 2_500_000)
    assert spec.options == t.TaskOptions(
        priority=0,
        max_attempts=5,
        max_losses=2,
        timeout_us=60_000_000,
        backoff=t.Backoff(base_us=1_000_000, factor=3, max_us=60_000_000, jitter=0),
        retention_us=3_600_000_000,
    )


def test_what_a_lambda_leaves_out_stays_unset_for_the_frontend_to_fill_in() -> None:
    assert bare.spec().options == t.TaskOptions()
    assert bare.prepare().request.spec.options == t.TaskOptions()
    assert not bare.prepare().request.WhichOneof("when")


def test_no_timeout_is_another_thing_than_an_unset_one() -> None:
    request = thumbnail.options(timeout=None).prepare("x").request
    assert request.spec.options.HasField("timeout_us")
    assert request.spec.options.timeout_us == 0


def test_a_call_carries_its_own_options_and_leaves_the_lambda_alone() -> None:
    urgent = thumbnail.options(
        delay=timedelta(seconds=30), priority=9, key="cat", ordering_key="cats", labels={"who": "me"}, max_attempts=1
    )
    request = urgent.prepare("cat.jpg").request
    assert (request.id, request.delay_us, request.spec.ordering_key) == ("cat", 30_000_000, "cats")
    assert (request.spec.options.priority, request.spec.options.max_attempts) == (9, 1)
    assert dict(request.spec.labels) == {"who": "me"}
    assert not thumbnail.prepare("cat.jpg").request.id


def test_a_concurrency_key_is_a_text_or_says_more() -> None:
    of = thumbnail.options(concurrency_key="anna").prepare("x").request.spec.concurrency
    assert of == t.Concurrency(key="anna", limit=1)
    more = atf.Concurrency("anna", limit=3, policy="cancel_running")
    of = thumbnail.options(concurrency_key=more).prepare("x").request.spec.concurrency
    assert of == t.Concurrency(key="anna", limit=3, policy=t.Concurrency.CANCEL_RUNNING)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"key": "a\nb"}, "concurrency_key 'a.nb': use 1 to 255 characters that can be seen"),
        ({"limit": 0}, "concurrency limit 0: give a whole number from 1 to 10000"),
        ({"limit": 1.5}, "concurrency limit 1.5"),
        ({"limit": True}, "concurrency limit True"),
        ({"limit": 10_001}, "concurrency limit 10001"),
        ({"policy": "drop"}, "concurrency policy 'drop': use 'queue', 'skip', 'cancel_running'"),
    ],
)
def test_a_concurrency_key_that_means_nothing_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(atf.InvalidArgument, match=says):
        atf.Concurrency(**{"key": "anna", **values})


def test_a_unique_key_has_a_window() -> None:
    of = thumbnail.options(unique=atf.Unique("anna", 60, "debounce")).prepare("x").request.spec.unique
    assert of == t.Unique(key="anna", window_us=60_000_000, policy=t.Unique.DEBOUNCE)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"key": "x" * 256}, "unique key 'x+': use 1 to 255 characters that can be seen"),
        ({"key": 7}, "unique key 7: give a text"),
        ({"window": 0}, "unique window 0: at least a millisecond"),
        ({"window": -1}, "unique window -1"),
        ({"policy": "drop"}, "unique policy 'drop': use 'throttle', 'debounce'"),
    ],
)
def test_a_unique_key_that_means_nothing_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(atf.InvalidArgument, match=says):
        atf.Unique(**{"key": "anna", "window": 60, **values})


def test_two_tasks_of_one_set_of_options_share_nothing() -> None:
    delayed = thumbnail.options(delay=1)
    first, second = delayed.prepare("a"), delayed.prepare("b")
    assert first.request.spec.payload != second.request.spec.payload


def test_an_instant_is_exact_to_the_microsecond_in_any_zone() -> None:
    at = datetime(2031, 5, 17, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2)))
    assert instant_us(at) == int(datetime(2031, 5, 17, 1, 4, 5, tzinfo=UTC).timestamp()) * 1_000_000 + 678901
    assert thumbnail.options(at=at).prepare("x").request.at_us == instant_us(at)
    assert instant_us(datetime(1969, 1, 1, tzinfo=UTC)) == 0


@pytest.mark.parametrize(
    "key", ["order:2024/17.3", "https://shop.example/a?b=c&d#e", "Anna Müller <anna@example.com>", "日本 {1}"]
)
def test_keys_are_what_they_are_called_elsewhere(key: str) -> None:
    """Order numbers, addresses, names: the id made from one keeps to the characters of ids, and each key has its own."""
    unique = atf.Unique(key, window=60)
    made = thumbnail.options(key=key, ordering_key=key, concurrency_key=key, unique=unique, affinity_key=key)
    request = made.prepare("x").request
    spec = request.spec
    assert {spec.ordering_key, spec.concurrency.key, spec.unique.key, spec.affinity_key} == {key}
    assert check_id(request.id) == id_of_key(key) != id_of_key(key + " ")
    assert id_of_key(key * 4)


def test_a_key_that_may_be_an_id_is_one_and_others_stay_readable() -> None:
    assert id_of_key("order-17_b") == "order-17_b"
    assert id_of_key("order:17/b").startswith("order_17_b-")
    assert id_of_key("order:17/b") != id_of_key("order/17:b")
    assert len(id_of_key("x:" * 100)) == 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5m", 300.0),
        ("90", 90.0),
        ("1.5h", 5400.0),
        ("500ms", 0.5),
        ("1d", 86400.0),
        ("1h30m", 5400.0),
        (" 2 h ", 7200.0),
    ],
)
def test_a_duration_may_be_text_wherever_one_is_taken(text: str, expected: float) -> None:
    us = int(expected * 1_000_000)
    assert duration_us(text, "delay") == us
    request = thumbnail.options(delay=text, timeout=text, retention=text).prepare("x").request
    assert (request.delay_us, request.spec.options.timeout_us, request.spec.options.retention_us) == (us, us, us)
    backoff = atf.Backoff(base=text, max="10d").to_proto()
    assert (backoff.base_us, backoff.max_us) == (us, 864_000_000_000)
    assert atf.Unique("a", text).to_proto().window_us == us
    assert atf.Retry(after=text).after_s == atf.HandBack(after=text).after_s == expected


@pytest.mark.parametrize("text", ["", "5x", "m", "-5m", "5m later", "1e3", "nan", "5mm", "\u0665m"])
def test_a_text_that_is_no_duration_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(
        atf.InvalidArgument,
        match=r"^delay .*: give seconds, a timedelta, or text such as 500ms, 30s, 5m, 2h, 1d or 1h30m",
    ):
        thumbnail.options(delay=text)
    with pytest.raises(ValueError, match="no length of time: give seconds, a timedelta, or text such as"):
        atf.Retry(after=text)


@pytest.mark.parametrize(
    ("given", "expected"), [(0.1, 100_000), (1e-7, 1), (0, 0), (1.1, 1_100_000), (timedelta(microseconds=3), 3)]
)
def test_durations_are_rounded_up_to_microseconds(given: float | timedelta, expected: int) -> None:
    assert duration_us(given, "delay") == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delay": -1}, "delay -1"),
        ({"delay": float("nan")}, "delay nan"),
        ({"delay": float("inf")}, "delay inf"),
        ({"delay": timedelta(days=4000)}, "delay"),
        ({"at": datetime(2031, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"priority": 10}, "priority 10"),
        ({"priority": -1}, "priority -1"),
        ({"priority": "urgent"}, "'urgent'"),
        ({"priority": True}, "priority True"),
        ({"priority": 1.5}, "priority 1.5"),
        ({"labels": {"team": 3}}, "labels {'team': 3}: names and values are text"),
        ({"labels": ["team"]}, "names and values are text"),
        ({"key": "a\x1b[2J"}, "key 'a.x1b.2J': use 1 to 255 characters that can be seen"),
        ({"key": ""}, "key ''"),
        ({"key": 7}, "key 7"),
        ({"ordering_key": "a\u202eb"}, "ordering_key 'a.u202eb'"),
        ({"concurrency_key": ""}, "concurrency_key ''"),
        ({"concurrency_key": 7}, "concurrency_key"),
        ({"unique": "anna"}, "unique 'anna': give an atf.Unique"),
        ({"max_attempts": 0}, "max_attempts 0"),
        ({"max_losses": 1.5}, "max_losses 1.5"),
        ({"timeout": -1}, "timeout -1"),
    ],
)
def test_an_option_outside_its_rule_is_refused_where_it_is_given(options: dict[str, Any], says: str) -> None:
    with pytest.raises(atf.InvalidArgument, match=says):
        thumbnail.options(**options)


def test_options_that_do_not_exist_or_contradict_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="delai"):
        thumbnail.options(delai=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="max_atempts"):
        app.task(max_atempts=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="delay or at"):
        thumbnail.options(delay=1, at=datetime(2031, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "arguments", [{"base": 0}, {"base": 2, "max": 1}, {"factor": 0.5}, {"factor": float("nan")}, {"jitter": 1.5}]
)
def test_a_backoff_that_makes_no_sense_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(atf.InvalidArgument, match="backoff"):
        atf.Backoff(**arguments)


def test_names_are_checked_and_may_be_taken_once() -> None:
    fresh = atf.App("a")
    with pytest.raises(atf.InvalidArgument, match="namespace 'a/b'"):
        atf.App("a/b")
    with pytest.raises(atf.InvalidArgument, match="lambda 'x y'"):
        fresh.task(name="x y")(print)
    fresh.task(name="once")(lambda: None)
    with pytest.raises(atf.InvalidArgument, match="a/once is defined twice"):
        fresh.task(name="once")(lambda: None)
    assert list(fresh.lambdas) == ["a/once"]


def test_isolate_is_for_a_def_and_true_or_false() -> None:
    app = atf.App("iso")

    @app.task(isolate=True)
    def alone() -> None: ...

    @app.task
    def beside() -> None: ...

    assert (alone.isolate, beside.isolate) == (True, False)
    with pytest.raises(atf.InvalidArgument, match="lambda iso/bad: isolate 'yes': give True or False"):

        @app.task(isolate="yes")  # type: ignore[call-overload, untyped-decorator]
        def bad() -> None: ...

    with pytest.raises(atf.InvalidArgument, match=r"lambda iso/on_loop: isolate=True is for a def.*asyncio.run"):

        @app.task(isolate=True)
        async def on_loop() -> None: ...
