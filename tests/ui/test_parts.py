"""The parts of which pages are made: texts, instants, waits, readings, static files, settings."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import pytest

from atf.config.settings import SecuritySettings, UiSettings
from atf.errors import ConfigError, Unavailable
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.runtime import end
from atf.task import Status
from atf.ui import bulk, log_watch
from atf.ui.bulk import page_by_page
from atf.ui.log_watch import LogWatches
from atf.ui.pages.task import bar_of, runs_of
from atf.ui.reads import MOST, SharedReads
from atf.ui.rendering import TEMPLATES
from atf.ui.samples import Samples
from atf.ui.security import OwnHosts, Refused, check_host, check_origin
from atf.ui.static_files import FOLDER
from atf.ui.texts import cut, lines, readable, size, traceback_lines
from atf.ui.ticks import LINE_TICKS, of_a_day, zone_of
from atf.ui.words import GROUPS, STATUSES, counted
from atf.ui.zones import Instants, duration, zone_named

from .conftest import NOW_US, TurnedClock

S = 1_000_000


# --- what others wrote ------------------------------------------------------------------------------------------------


VENDORED = [
    line.split() for line in (FOLDER / "vendor/VENDORED.txt").read_text().splitlines() if not line.startswith("#")
]


def test_vendored_files_are_what_their_packages_have() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (FOLDER / "vendor").iterdir()}
    del found["VENDORED.txt"]
    assert found == {name: digest for name, _, _, _, digest in VENDORED}


def test_each_vendored_package_has_its_licence_and_one_version() -> None:
    packages = {package for _, package, *_ in VENDORED}
    assert {package for _, package, _, source, _ in VENDORED if source == "LICENSE"} == packages
    assert len({(package, version) for _, package, version, *_ in VENDORED}) == len(packages) == 2


def test_no_page_asks_another_host_for_anything() -> None:
    own = [*TEMPLATES.glob("*.html"), FOLDER / "app.js", FOLDER / "app.css"]
    for path in own:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path
        assert "url(" not in text or path.suffix == ".html", path
        assert "<script>" not in text


# --- settings ---------------------------------------------------------------------------------------------------------


LOCKED: Final = SecuritySettings(auth="token", tls_cert="c", tls_key="k")


@pytest.mark.parametrize("listen", ["0.0.0.0:8401", "[::]:8401", "10.0.0.1:1", "example.com:80"])
def test_pages_are_served_off_loopback_with_tls_and_tokens_alone_unless_told_otherwise(listen: str) -> None:
    ways = r"no {}\. Give it --tls-cert, .*--auth token.*, or --insecure .*, or have .*ssh -L .*, or a proxy on this machine"
    for security, lacks in (
        (SecuritySettings(), "TLS and tokens"),
        (replace(LOCKED, auth="off"), "tokens"),
        (SecuritySettings(auth="token"), "TLS"),
    ):
        with pytest.raises(ConfigError, match=ways.format(lacks)):
            security.check_pages(listen)
    LOCKED.check_pages(listen)
    SecuritySettings(insecure=True).check_pages(listen)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:8401", "[::1]:8401", "127.1.2.3:9"])
def test_pages_are_served_on_loopback(listen: str) -> None:
    SecuritySettings().check_pages(listen)


@pytest.mark.parametrize(
    ("listen", "host", "fits"),
    [
        ("127.0.0.1:1", "localhost:1", True),
        ("127.0.0.1:1", "ops.example", True),
        ("127.0.0.1:1", "named.example:1", True),
        ("127.0.0.1:1", "10.0.0.7:1", False),
        ("127.0.0.1:1", "evil.example:1", False),
        ("0.0.0.0:1", "10.0.0.7:1", True),
        ("[::]:1", "[2001:db8::1]:1", True),
        ("0.0.0.0:1", "evil.example:1", False),
        ("atf.example:1", "ATF.example:1", True),
        ("atf.example:1", "127.0.0.1:1", True),
        ("0.0.0.0:1", "10.0.0.7.evil.example", False),
        ("0.0.0.0:1", "", False),
    ],
)
def test_the_host_of_a_request_is_one_of_the_pages(listen: str, host: str, fits: bool) -> None:
    own = OwnHosts(listen, frozenset({"ops.example", "named.example:8443"}))
    with contextlib.nullcontext() if fits else pytest.raises(Refused, match="public_hosts"):
        check_host(host, own)


@pytest.mark.parametrize(
    ("origin", "secure", "fits"),
    [
        ("https://10.0.0.7:1", True, True),
        ("http://10.0.0.7:1", True, False),
        ("http://10.0.0.7:1", False, True),
        ("https://ops.example", False, True),
        ("https://ops.example:443", True, True),
        ("https://ops.example:8443", True, False),
        ("https://Named.example:8443", True, True),
        ("https://named.example", True, False),
        ("http://ops.example", False, False),
        ("http://named.example:8443", False, False),
        ("http://[", False, False),
        ("https://10.0.0.8:1", True, False),
        ("https://evil.example:1", True, False),
        ("null", True, False),
        ("", False, False),
    ],
)
def test_the_page_of_a_form_is_one_of_these_pages(origin: str, secure: bool, fits: bool) -> None:
    own = OwnHosts("0.0.0.0:1", frozenset({"ops.example", "named.example:8443"}))
    with contextlib.nullcontext() if fits else pytest.raises(Refused):
        check_origin(origin, "10.0.0.7:1", own, secure=secure)


@pytest.mark.parametrize("path", ["atf", "//x", "/a b", "/..", "/a/../b", "/" + "x" * 80])
def test_a_base_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="base_path"):
        UiSettings(base_path=path)


def test_a_public_host_is_a_name() -> None:
    assert UiSettings(base_path="/a/b/", public_hosts="a.b, C.d:80, [::1]:8401").root == "/a/b"
    for wrong in ("a.b:", "a.b:http", "a.b:0", "https://a.b", "a.b/x"):
        with pytest.raises(ConfigError, match="write host names"):
            UiSettings(public_hosts=wrong)


@pytest.mark.parametrize(
    "url",
    ["vscode://file{path}", "javascript://{path}:{line}", "x://{path} {line}", "{path}{line}", 'x://"{path}{line}'],
)
def test_an_editors_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="editor_url"):
        UiSettings(editor_url=url)


def test_a_traceback_opens_in_the_editor() -> None:
    text = 'Traceback (most recent call last):\n  File "/a b/<x>.py", line 12, in f\n    raise "File <b>"\nValueError: \u202e'
    made = traceback_lines(text, "vscode://file{path}:{line}")
    assert '  <a href="vscode://file/a%20b/%3Cx%3E.py:12">File &#34;/a b/&lt;x&gt;.py&#34;, line 12</a>, in f' in made
    assert "File &lt;b&gt;" in made
    assert "\\u202e" in made
    assert traceback_lines(text, "") == lines(text)
    assert UiSettings(editor_url="vscode://file{path}:{line}").editor_url


# --- readings ---------------------------------------------------------------------------------------------------------


async def test_readings_that_come_together_are_one() -> None:
    clock, asked, go_on = TurnedClock(), [], asyncio.Event()

    async def call(request: f.GetTaskRequest) -> str:
        asked.append(request.id)
        await go_on.wait()
        return f"answer {len(asked)}"

    read = SharedReads(clock)
    waiting = [asyncio.create_task(read(call, f.GetTaskRequest(id="a"))) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # the first who asked leaves
    clock.now_us += 5 * S  # and it lasts: still nobody asks again
    waiting.append(asyncio.create_task(read(call, f.GetTaskRequest(id="a"))))
    await asyncio.sleep(0)
    go_on.set()
    assert set(await asyncio.gather(*waiting[1:])) == {"answer 1"}
    assert asked == ["a"]
    clock.now_us += 5 * S
    assert await read(call, f.GetTaskRequest(id="a")) == "answer 2"
    await read(call, f.GetTaskRequest(id="b"))
    assert asked == ["a", "a", "b"]
    read.forget()
    await read(call, f.GetTaskRequest(id="b"))
    assert asked == ["a", "a", "b", "b"]


async def test_a_reading_that_failed_is_shared_and_forgotten() -> None:
    clock, asked = TurnedClock(), []

    async def call(_request: f.GetTaskRequest) -> str:
        asked.append(1)
        if len(asked) == 1:
            raise Unavailable("away")
        return "here"

    read = SharedReads(clock)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await read(call, f.GetTaskRequest())
    clock.now_us += S
    assert await read(call, f.GetTaskRequest()) == "here"


@pytest.mark.parametrize(("took_ms", "kept_ms"), [(0, 1_000), (12, 1_000), (30, 2_400), (99, 7_920), (4_000, 10_000)])
async def test_a_reading_that_takes_long_is_shared_for_longer(took_ms: int, kept_ms: int) -> None:
    clock, asked = TurnedClock(), []

    async def call(_request: f.GetTaskRequest) -> int:
        asked.append(clock.now_us)
        clock.now_us += took_ms * 1_000
        return len(asked)

    read = SharedReads(clock)
    begun_us = clock.now_us
    assert await read(call, f.GetTaskRequest()) == 1
    clock.now_us = begun_us + kept_ms * 1_000 - 10
    assert await read(call, f.GetTaskRequest()) == 1
    clock.now_us += 20
    assert await read(call, f.GetTaskRequest()) == 2


async def test_many_readings_are_shared_for_longer_and_counts_are_not_among_them() -> None:
    clock, asked = TurnedClock(), []

    async def call(request: f.GetTaskRequest) -> str:
        asked.append(request.id)
        clock.now_us += S // 40
        return request.id

    read = SharedReads(clock)
    for each in ("a", "b", "c"):
        await read(call, f.GetTaskRequest(id=each))
    await read(call, f.GetTaskRequest(id="counts"), keep_s=1.0)
    clock.now_us += 5 * S
    await read(call, f.GetTaskRequest(id="a"))
    await read(call, f.GetTaskRequest(id="counts"), keep_s=1.0)
    assert asked == ["a", "b", "c", "counts", "counts"], "three of 25 ms: six seconds"
    clock.now_us += S
    await read(call, f.GetTaskRequest(id="a"))
    assert asked[5:] == ["a"]
    clock.now_us += 10 * S  # and those before do not matter any more
    for _ in range(2):
        await read(call, f.GetTaskRequest(id="b"))
        clock.now_us += 2 * S - S // 10
    assert asked[6:] == ["b"]
    await read(call, f.GetTaskRequest(id="b"))
    assert asked[6:] == ["b", "b"]


async def test_a_reading_may_be_shared_for_as_long_as_a_page_says() -> None:
    clock, asked = TurnedClock(), []

    async def call(_request: f.GetTaskRequest) -> int:
        asked.append(clock.now_us)
        clock.now_us += S // 2
        return len(asked)

    read = SharedReads(clock)
    for after_us, keep_s, answer in (
        (0, 1.0, 1),
        (S // 2 - 10, 1.0, 1),
        (20, 30.0, 1),
        (10, 1.0, 2),
        (S // 4, None, 2),
    ):
        clock.now_us += after_us
        assert await read(call, f.GetTaskRequest(), keep_s=keep_s) == answer


async def test_readings_do_not_grow() -> None:
    clock, asked = TurnedClock(), []

    async def call(request: f.GetTaskRequest) -> str:
        asked.append(request.id)
        return request.id

    read = SharedReads(clock)
    for number in range(MOST + 10):
        await read(call, f.GetTaskRequest(id=str(number)))
    await read(call, f.GetTaskRequest(id="0"))  # was dropped
    assert asked.count("0") == 2


def test_samples_are_an_hours() -> None:
    clock = TurnedClock()
    nobody: Any = None
    samples = Samples(nobody, SharedReads(clock), clock)
    assert samples.columns() == []
    samples.add({"NEW": 2, "ENQUEUED": 1, "FATAL_FAILURE": 4})
    samples.add({"NEW": 9})  # of the same second
    clock.now_us += 10 * S
    samples.add({"PROCESSING": 1})
    assert samples.columns() == [[NOW_US // S, NOW_US // S + 10], [3, 0], [0, 1], [4, 0]]


# --- words, texts, instants -------------------------------------------------------------------------------------------


def test_every_status_has_a_word_and_a_filter() -> None:
    assert STATUSES.keys() == set(Status)
    assert {status for statuses in GROUPS.values() for status in statuses} == set(Status)
    assert counted({"NEW": 1, "RETRIABLE_FAILURE": 2, "SUCCESS": 4}, "waiting") == 3


def test_payloads_are_readable() -> None:
    assert readable(b'{"b": [1], "a": "\\u202e"}', t.JSON) == '{\n  "b": [\n    1\n  ],\n  "a": "\u202e"\n}'
    assert readable(b"[" * 100_000, t.JSON) == "[" * 100_000
    assert readable(b"[" * 1_000, t.JSON) == "[" * 1_000
    assert readable(b"\xff\x00", t.RAW) == "ff00"
    assert readable(b"", t.JSON) == ""
    assert cut("é" * 3_000) == ("é" * 2_048, True)
    assert cut("é" * 3_000, newest=True) == ("é" * 2_048, True)
    assert cut("short") == ("short", False)
    assert [size(each) for each in (5, 4_096, 3 << 20)] == ["5 bytes", "4.0 KiB", "3.0 MiB"]


@pytest.mark.parametrize(
    ("us", "said"),
    [
        *((0, "0 s"), (7, "7 µs"), (86_916, "86.9 ms"), (999_900, "1000 ms"), (12_345_678, "12.3 s")),
        *((200_900_000, "3 min 20 s"), (90_061_000_000, "1 d 1 h")),
    ],
)
def test_durations_have_three_figures(us: int, said: str) -> None:
    assert duration(us) == said


def test_instants_name_their_zone() -> None:
    paris, utc = (Instants(zone_named(name), NOW_US) for name in ("Europe/Paris", "No/Where"))
    assert ">15 Jan 09:00:00 <" in paris.at(NOW_US)
    assert ">CET<" in paris.at(NOW_US)
    assert ">15 Jan 08:00:00 <" in utc.at(NOW_US)
    assert "1 h ago" in utc.at(NOW_US - 3_600 * S)
    assert "2001-09-09 01:46:40 " in utc.at(1_000_000_000 * S)
    assert "—" in utc.at(0)
    assert "µs after 1970" in utc.at(1 << 62)
    for bad in ("", "../etc/passwd", "/etc/localtime", "x" * 100, "\x00"):
        assert zone_named(bad).key == "UTC"


# --- a task's runs and its bar ------------------------------------------------------------------------------------------


def test_the_runs_of_a_task_are_on_one_scale() -> None:
    first = t.EndedRun(started_at_us=20 * S, ended_at_us=30 * S, why="failed: ValueError: x", attempt=1)
    again = t.Task(status=t.PROCESSING, ended_runs=[first], runs=2, attempts=1)
    again.claimed_at_us, again.started_at_us = 41 * S, 42 * S
    newest, oldest = runs_of(again, 60 * S)
    assert (newest["number"], newest["word"], newest["us"], newest["width"]) == (2, "runs", 18 * S, 1_000)
    assert (oldest["number"], oldest["word"], oldest["why"], oldest["tone"]) == (1, "failed", "ValueError: x", "warn")


def test_a_bar_fills_its_width_and_shows_the_least_part() -> None:
    waits = [f.WaitPart(reason=each, us=us) for each, us in (("due", 1), ("queued", 9_000_000), ("claimed", 10))]
    bar = bar_of([*waits, f.WaitPart(reason="of a newer frontend", us=5)])
    assert [each["reason"] for each in bar] == ["due", "queued", "claimed", "of a newer frontend"]
    assert all(each["width"] >= 3 for each in bar)
    assert abs(bar[-1]["x"] + bar[-1]["width"] - 1_000) < 0.1
    assert bar_of([]) == []


# --- ticks of jobs ----------------------------------------------------------------------------------------------------


def job_of(schedule: str = "", **fields: Any) -> j.Job:
    spec = j.JobSpec(name="a/b", due_time="2020-01-01T00:00:00Z", repeats=fields.pop("repeats", None))
    if schedule:
        spec.schedule = schedule
    return j.Job(spec=spec, next_tick_at_us=NOW_US + 60 * S, **fields)


def test_a_jobs_line_has_the_ticks_of_a_day() -> None:
    hourly = of_a_day(job_of("0 0 * * * *"), NOW_US)
    assert hourly[0] == NOW_US + 60 * S
    assert hourly[1] % (3_600 * S) == 0
    assert len(hourly) == 25
    assert len(of_a_day(job_of("@every 1s"), NOW_US)) == LINE_TICKS
    assert len(of_a_day(job_of("@every 1s", ticks=2, repeats=5), NOW_US)) == 3
    assert of_a_day(job_of(), NOW_US) == [NOW_US + 60 * S]
    assert of_a_day(job_of("no schedule"), NOW_US) == [NOW_US + 60 * S]
    assert of_a_day(job_of("@hourly", paused=True), NOW_US) == []
    assert of_a_day(job_of("@yearly"), NOW_US - 86_400 * S) == []


def test_the_zone_of_a_job_is_what_its_ticks_go_by() -> None:
    assert zone_of(j.JobSpec(schedule="0 0 9 * * *", tz="Europe/Paris")) == "Europe/Paris"
    assert zone_of(j.JobSpec(schedule="CRON_TZ=Asia/Tokyo 0 0 9 * * *")) == "Asia/Tokyo"
    assert zone_of(j.JobSpec(schedule="@every 5s")) == "UTC"
    assert zone_of(j.JobSpec(schedule="of a later release", tz="x")) == "x"


# --- logs of tasks that run -------------------------------------------------------------------------------------------


class Watched:
    """A frontend whose watches say one thing, and then what is put in."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.more: asyncio.Queue[str] = asyncio.Queue()
        self.ended = 0

    async def watch_log(self, request: f.WatchLogRequest, *, timeout: float = 10) -> AsyncIterator[f.GetLogReply]:
        assert timeout
        self.begun.append(request.id)
        try:
            while True:
                yield f.GetLogReply(runs=[t.RunLog(text=await self.more.get())])
        finally:
            self.ended += 1


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_all_who_look_at_a_running_task_share_one_watch() -> None:
    frontend: Any = Watched()
    clock = TurnedClock()
    watches = LogWatches(frontend, clock)
    assert watches.look("0-a") is None
    assert watches.look("0-a") is None
    await turns()
    frontend.more.put_nowait("hello")
    await turns()
    newest = watches.look("0-a")
    assert newest is not None
    assert newest.runs[0].text == "hello"
    assert frontend.begun == ["0-a"]
    await end(each for each in asyncio.all_tasks() if each is not asyncio.current_task())
    assert frontend.ended == 1


async def test_a_watch_ends_when_nobody_looks_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_watch, "UNSEEN_S", 0.001)
    frontend: Any = Watched()
    clock = TurnedClock()
    watches = LogWatches(frontend, clock)
    for number in range(log_watch.MOST + 1):
        watches.look(str(number))
    await turns()
    clock.now_us += 2_000
    async with asyncio.timeout(5):
        while frontend.ended < log_watch.MOST:
            await asyncio.sleep(0)
    await turns()
    assert len(frontend.begun) == log_watch.MOST  # one more than that is not begun
    watches.look("again")
    await turns()
    assert frontend.begun[-1] == "again"


async def test_a_watch_that_fails_is_begun_again() -> None:
    class Away:
        begun = 0

        async def watch_log(self, _request: f.WatchLogRequest) -> AsyncIterator[f.GetLogReply]:
            Away.begun += 1
            if Away.begun:
                raise Unavailable("away")
            yield f.GetLogReply()

    frontend: Any = Away()
    watches = LogWatches(frontend, TurnedClock())
    for _ in range(2):
        assert watches.look("0-a") is None
        await turns(10)
    assert Away.begun == 2


# --- many tasks at once -----------------------------------------------------------------------------------------------


async def test_what_is_done_to_many_tasks_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def call(request: f.RedriveRequest) -> f.RedriveReply:
        asked.append(request.page_token)
        token = str(len(asked)) if len(asked) < 4 else ""
        return f.RedriveReply(
            matched=2, redriven=1, looked_at=5, ids=["0-a", "0-b"], errors={"rain": 2}, next_page_token=token
        )

    tally = await page_by_page(f.RedriveRequest(), call, lambda reply: reply.redriven)
    assert asked == ["", "1", "2", "3"]
    assert (tally.matched, tally.done, tally.looked_at, tally.more) == (8, 4, 20, False)
    assert tally.ids == ["0-a", "0-b", "0-a", "0-b", "0-a"]
    assert tally.errors == {"rain": 8}
    asked.clear()
    monkeypatch.setattr(bulk, "SECONDS", -1.0)
    assert (await page_by_page(f.RedriveRequest(), call, lambda reply: reply.redriven)).more
    assert asked == [""]
