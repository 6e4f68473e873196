"""Any text is read or refused, soon, and never with another error."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from atf.errors import InvalidArgument
from atf.schedule.plan import Plan

from .reading import BASE, us

WORDS = st.sampled_from(
    [
        *(
            "*",
            "?",
            "0",
            "5",
            "59",
            "60",
            "*/2",
            "*/0",
            "1-5",
            "5-1",
            "1/3",
            ",",
            "-",
            "/",
            "JAN",
            "mon",
            "L",
            "W",
            "#",
        ),
        *(
            "@daily",
            "@every ",
            "1h",
            "1.5s",
            "PT3S",
            "P1M",
            "R4/",
            "TZ=",
            "CRON_TZ=",
            "UTC ",
            "Europe/Paris ",
            " ",
            "\t",
        ),
        *(
            "2026-01-01",
            "T00:00:00",
            "Z",
            "+01:00",
            ".5",
            "9" * 30,
            "0" * 400,
            "\0",
            "\n",
            "\u0663",
            "\ud800",
            "\U0001f600",
        ),
    ]
)
TEXTS = st.one_of(
    st.text(alphabet=st.characters(codec=None), max_size=60),
    st.text(alphabet="0123456789*/,-? ", max_size=40),
    st.lists(WORDS, max_size=12).map("".join),
    st.lists(st.one_of(WORDS, st.text(max_size=3)), min_size=6, max_size=6).map(" ".join),
)
POLICIES = {"gap": st.sampled_from(["skip", "run_after"]), "fold": st.sampled_from(["first", "second", "both"])}
fuzz = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def check(**fields: Any) -> None:
    """The plan's ticks rise; or the refusal has a sentence and a place."""
    try:
        plan = Plan.parse(base_us=us(BASE), **fields)
    except InvalidArgument as error:
        lines = str(error).split("\n")
        assert len(lines) in {1, 3}
        assert all(10 < len(line) < 400 or not line.strip(" ^") or line == lines[1] for line in lines)
        assert len(lines) == 1 or len(lines[2]) - 1 <= len(lines[1])
        return
    ticks = list(islice(plan, 3))
    assert all(earlier < later for earlier, later in pairwise(ticks))


@fuzz
@given(TEXTS, st.sampled_from([None, "unix"]), st.sampled_from([None, "Europe/Paris"]))
@example("R" + "9" * 1_000 + "/PT1S", None, None)
@example("P" + "9" * 1_000 + "D", None, None)
@example("@every " + "9" * 1_000 + "h", None, None)
def test_any_schedule(text: str, form: str | None, tz: str | None) -> None:
    check(schedule=text, format=form, tz=tz)


@fuzz
@given(TEXTS, TEXTS, st.integers())
def test_any_due_time_and_ttl(due_time: str, ttl: str, repeats: int) -> None:
    check(due_time=due_time)
    check(schedule="@daily", ttl=ttl)
    check(schedule="@every 1h", due_time=due_time, ttl=ttl, repeats=repeats)


@fuzz
@given(TEXTS)
def test_any_zone(text: str) -> None:
    check(schedule="@daily", tz=text)
    check(schedule=f"TZ={text} 0 0 0 * * *")


@fuzz
@given(
    st.tuples(*(st.lists(st.integers(least, most), min_size=1, max_size=3) for least, most in
                ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)))),
    st.integers(0, 253_402_300_799_999_999),
    st.sampled_from(["UTC", "Europe/Paris", "Pacific/Apia", "America/New_York", "Africa/Monrovia"]),
    POLICIES["gap"],
    POLICIES["fold"],
)  # fmt: skip
def test_any_instant(values: tuple[list[int], ...], base_us: int, tz: str, gap: str, fold: str) -> None:
    schedule = " ".join(",".join(map(str, each)) for each in values)
    plan = Plan.parse(base_us=base_us, schedule=schedule, tz=tz, gap=gap, fold=fold)
    ticks = [base_us, *islice(plan, 3)]
    assert all(earlier < later for earlier, later in pairwise(ticks))


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        ",".join(["0-59/1"] * 140) + " * * * * *",
        ",".join(["*/1"] * 250) + " * * * * *",
        "0-59/99999999999 * * * * *",
        "* " * 512,
        "@" * 1_024,
        "9" * 1_024,
        "1h" * 512,
        "P" + "1" * 1_000 + "Y",
        "TZ=" + "A/" * 500 + " * * * * * *",
        "TZ=" + "Europe/Pari" * 5 + " * * * * * *",
        "-" * 1_024,
        "1-" * 512,
        "\u4e2d" * 1_024,
        " " * 1_024,
        "59 59 23 30,31 2 *",
        "0 0 0 31 2,4,6,9,11 *",
    ],
)
def test_long_and_hopeless_texts_are_dealt_with_soon(text: str) -> None:
    for _ in range(20):
        check(schedule=text)
        check(schedule=text, tz="Europe/Paris", strict=True)
        check(due_time=text)
