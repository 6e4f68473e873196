"""`atf cron next` as a user calls it. `--from` stands for the clock, but for the one test that asks for now."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from atf.cli import cron, main
from atf.schedule.instants import text_of
from tests.cli.conftest import Ran

from .reading import us

FROM = ("--from", "2026-03-28T00:00:00Z")


def rows(ran: Ran) -> list[list[str]]:
    """Without the header."""
    return [line.split("\t") for line in ran.out.splitlines()[1:]]


@pytest.fixture
def preview(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def run(*words: str) -> Ran:
        capsys.readouterr()
        code = main(["cron", "next", *words])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def test_the_next_fires_as_json(preview: Callable[..., Ran]) -> None:
    ran = preview("0 30 8 * * MON-FRI", *FROM, "--count", "2", "--json")

    assert ran.code == 0
    assert ran.json == {"next": ["2026-03-30T08:30:00Z", "2026-03-31T08:30:00Z"]}


def test_fewer_where_the_job_ends(preview: Callable[..., Ran]) -> None:
    job = ("--due-time", "10s", "--ttl", "10s", "--repeats", "9", *FROM, "--json")
    assert preview("@every 5s", *job).json == {
        "next": ["2026-03-28T00:00:10Z", "2026-03-28T00:00:15Z", "2026-03-28T00:00:20Z"]
    }
    assert preview("R1/PT3S", *FROM, "--json").json == {"next": ["2026-03-28T00:00:03Z"]}
    assert preview("--due-time", "1ms", *FROM, "--json").json == {"next": ["2026-03-28T00:00:00.001000Z"]}


def test_five_by_default(preview: Callable[..., Ran]) -> None:
    assert len(preview("@daily", *FROM, "--json").json["next"]) == 5


def test_a_table_in_the_zone_of_the_schedule(preview: Callable[..., Ran]) -> None:
    ran = preview("0 30 2 * * *", "--tz", "Europe/Paris", "--gap", "run_after", *FROM, "--count", "2")

    assert rows(ran) == [
        ["Sat 2026-03-28 02:30:00 +01:00", "2026-03-28T01:30:00Z", "in 1 h 30 min"],
        ["Sun 2026-03-29 03:00:00 +02:00", "2026-03-29T01:00:00Z", "in 1 d 1 h"],
    ]
    assert (ran.code, ran.err) == (0, "")


def test_a_table_in_utc(preview: Callable[..., Ran]) -> None:
    ran = preview("@every 1.5s", "--due-time", "-1s", "--repeats", "2", *FROM)

    assert rows(ran) == [["2026-03-27T23:59:59Z", "1 s ago"], ["2026-03-28T00:00:00.500000Z", "in 500 ms"]]
    assert ran.err == "then it has ended\n"


def test_a_crontabs_format(preview: Callable[..., Ran]) -> None:
    ran = preview("30 8 * * 7", "--format", "unix", *FROM, "--count", "1", "--json")
    assert ran.json == {"next": ["2026-03-29T08:30:00Z"]}


@pytest.mark.parametrize("schedule", ["@every 0s", "0 0 0 30 2 *", "PT0S"])
def test_what_never_fires_is_an_empty_list_and_says_why(schedule: str, preview: Callable[..., Ran]) -> None:
    assert preview(schedule, *FROM, "--json") == (0, '{"next": []}\n', "")
    ran = preview(schedule, *FROM)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("it never fires: schedule: ")


def test_a_ttl_before_the_first_tick(preview: Callable[..., Ran]) -> None:
    ran = preview("@daily", "--ttl", "1h", *FROM)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("it never fires: ttl: it ends before the first tick, 2026-03-29T00:00:00Z")


def test_a_refusal_shows_the_place(preview: Callable[..., Ran]) -> None:
    ran = preview("0 0 24 * * *", *FROM)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "atf: schedule: the hour 24 is over 23; write 0 to 23\n  0 0 24 * * *\n      ^\n"


def test_a_refusal_as_json(preview: Callable[..., Ran]) -> None:
    ran = preview("0 0 24 * * *", *FROM, "--json")

    assert (ran.code, ran.err) == (2, "")
    assert ran.json == {"error": "schedule: the hour 24 is over 23; write 0 to 23\n  0 0 24 * * *\n      ^"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "schedule: there is neither a schedule nor a due_time; give one of them"),
        (("@daily", "--repeats", "0"), "repeats: it is under 1; give 1 to 4294967295"),
        (("@daily", "--repeats", "-2"), "repeats: it is under 1"),
        (("@daily", "--repeats", "1.5"), "repeats: it is no whole number; write such as 3"),
        (("@daily", "--count", "0"), "count: it is under 1; give 1 to 10000"),
        (("@daily", "--count", "10001"), "count: it is over 10000"),
        (("@daily", "--count", "101", "--around-dst"), "count: it is over 100"),
        (("@daily", "--tz", "Mars"), "tz: there is no time zone 'Mars'"),
        (("@daily", "--gap", "jump"), "gap: 'jump' is not known; write skip or run_after"),
        (("--due-time", "soon"), "due_time: 'soon' is neither an instant nor a duration"),
        (("--due-time", "1h", "--ttl", "1h"), "ttl: without a schedule the job fires once"),
        (("@every 1h", "--around-dst"), "schedule: changes of the clocks do not matter to it"),
        (("--due-time", "1h", "--around-dst"), "--due-time: of no use with --around-dst"),
        (("@daily", "--from", "yesterday"), "from: it is no instant of RFC 3339"),
    ],
)
def test_flags_that_are_refused(words: tuple[str, ...], says: str, preview: Callable[..., Ran]) -> None:
    given = (*words, *(() if "--from" in words else FROM))
    ran = preview(*given, "--json")
    assert ran.code == 2
    assert ran.json["error"].startswith(says)
    assert preview(*given).err.startswith(f"atf: {says}")


def test_around_the_changes_of_the_clocks(preview: Callable[..., Ran]) -> None:
    ran = preview("0 30 2 * * *", "--tz", "Europe/Paris", "--count", "1", "--around-dst", *FROM)

    assert rows(ran) == [
        ["Sat 2026-03-28 02:30:00 +01:00", "2026-03-28T01:30:00Z", ""],
        ["Sun 2026-03-29 03:00:00 +02:00", "2026-03-29T01:00:00Z", "set forward by 1 h"],
        ["Mon 2026-03-30 02:30:00 +02:00", "2026-03-30T00:30:00Z", ""],
        ["Sun 2026-10-25 02:30:00 +02:00", "2026-10-25T00:30:00Z", ""],
        ["Sun 2026-10-25 02:00:00 +01:00", "2026-10-25T01:00:00Z", "set back by 1 h"],
        ["Sun 2026-10-25 02:30:00 +01:00", "2026-10-25T01:30:00Z", ""],
    ]


def test_around_the_changes_as_json(preview: Callable[..., Ran]) -> None:
    ran = preview("* * * * * *", "--tz", "America/New_York", "--count", "2", "--around-dst", *FROM, "--json")

    forward, back = ran.json["changes"]
    assert forward == {
        "at": "2026-03-08T07:00:00Z",
        "offset_before_s": -18_000,
        "offset_after_s": -14_400,
        "before": ["2026-03-08T06:59:58Z", "2026-03-08T06:59:59Z"],
        "after": ["2026-03-08T07:00:00Z", "2026-03-08T07:00:01Z"],
    }
    assert ran.json["next"] == [*forward["before"], *forward["after"], *back["before"], *back["after"]]


def test_around_changes_of_a_rare_schedule(preview: Callable[..., Ran]) -> None:
    ran = preview("@yearly", "--tz", "Europe/Paris", "--count", "1", "--around-dst", *FROM, "--json")
    assert [each["before"] for each in ran.json["changes"]] == [["2025-12-31T23:00:00Z"]] * 2


def test_a_zone_without_changes(preview: Callable[..., Ran]) -> None:
    ran = preview("@daily", "--tz", "Asia/Tokyo", "--around-dst", *FROM)
    assert ran == (0, "", "Asia/Tokyo: the clocks are not changed in that year\n")
    assert preview("@daily", "--around-dst", "--from", "9999-06-01T00:00:00Z", "--json").json["changes"] == []


def test_from_now_on(preview: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped:
        def wall_us(self) -> int:
            return us("2026-03-28T00:00:00Z")

    monkeypatch.setattr(cron, "SystemRuntime", Stopped)
    assert preview("@every 1s", "--count", "1", "--json").json == {"next": [text_of(us("2026-03-28T00:00:01Z"))]}


def test_help_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "cron" in capsys.readouterr().out
    assert main(["cron", "next", "--help"]) == 0
    assert "--around-dst" in capsys.readouterr().out
