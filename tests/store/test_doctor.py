"""`atf doctor` and `atf store timing` on a real server, and the judgements on what lies in a store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from atf.cli import doctor as doctor_command, main
from atf.config.settings import StoreSettings, Timing
from atf.runtime import SystemRuntime
from atf.store import library
from atf.store.backup import contents
from atf.store.servers import modes as store_modes
from atf.store.servers.check_results import State
from atf.store.servers.connection import Link
from atf.store.servers.permissions import acl_user
from atf.store.store import Store
from atf.task import US

from .servers import Server

NOW_US = 1_800_000_000 * US
RECORD = {"partitions": "2", "data": str(library.VERSION), "timeout": str(16 * US)}

Doctor = Callable[..., tuple[int, dict[str, dict[str, str]]]]


@pytest.fixture
def real(embedded: Server) -> Iterator[redis.Redis]:
    """A client of the embedded server, empty now."""
    with embedded.client() as client:
        client.flushall()
        client.function_flush()
        yield client
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 0)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ATF_REDIS_URL", "ATF_PARTITIONS", "ATF_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def doctor(embedded: Server, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Runs `atf doctor --json`: its exit code, and the results by their check."""

    def run(*flags: str, url: str = f"unix://{embedded.socket}") -> tuple[int, dict[str, Any]]:
        code = main(["doctor", "--redis-url", url, "--json", *flags])
        return code, {each["check"]: each for each in json.loads(capsys.readouterr().out)}

    return run


def open_store(embedded: Server, partitions: int = 2, **timing: float) -> None:
    async def run() -> None:
        settings = StoreSettings(redis_url=f"unix://{embedded.socket}", partitions=partitions)
        await (await Store.open(settings, Timing(**timing), SystemRuntime())).close()

    asyncio.run(run())


def test_a_new_store_and_one_in_use(embedded: Server, real: redis.Redis, doctor: Doctor) -> None:
    code, found = doctor("--partitions", "2")
    assert code == 0
    assert found["partitions"]["value"] == found["timing"]["value"] == "none yet"
    assert found["library"]["value"] == "none"
    assert real.dbsize() == 0
    assert real.function_list() == []

    open_store(embedded)
    code, found = doctor("--partitions", "2")
    assert code == 0
    assert {name for name, each in found.items() if each["state"] == "ok"} >= {
        "settings", "version", "role", "clock", "acl", "library", "partitions", "data", "timing", "claims",
    }  # fmt: skip
    assert (found["partitions"]["value"], found["timing"]["value"]) == ("2", "16 s")
    assert set(found["acl"]) == {"check", "state", "value", "text", "mend", "server"}


@pytest.mark.usefixtures("real")
def test_other_partitions_or_another_timeout_are_refused(embedded: Server, doctor: Doctor) -> None:
    open_store(embedded, heartbeat_timeout=20)

    code, found = doctor("--partitions", "3")
    assert code == 1
    assert {name for name, each in found.items() if each["state"] == "refuse"} == {"partitions", "timing"}
    assert "leave partitions (ATF_PARTITIONS) unset" in found["partitions"]["mend"]
    assert "atf store timing --set 16" in found["timing"]["mend"]


def test_a_server_that_evicts_is_refused_in_a_line_of_its_own(
    embedded: Server, real: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    real.config_set("maxmemory", 1 << 30)
    real.config_set("maxmemory-policy", "allkeys-lru")

    assert main(["doctor", "--redis-url", f"unix://{embedded.socket}"]) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("refuse"))
    state, check, value, text = line.split("\t")
    assert (state, check, value) == ("refuse", "maxmemory-policy", "allkeys-lru")
    assert text.endswith("would lose tasks. CONFIG SET maxmemory-policy noeviction, then CONFIG REWRITE")


def test_a_store_that_is_not_there(doctor: Doctor, tmp_path: Path) -> None:
    code, found = doctor(url=f"unix://{tmp_path}/nobody")
    assert code == 4
    assert found["server"]["state"] == "refuse"
    assert "--redis-url" in found["server"]["mend"]


class Parted(Link):
    """A cluster of two masters, one of which is gone: it has the partitions with even numbers, or those with odd ones."""

    parted = True

    def __init__(self, live: Link, gone: Link, first_away: bool) -> None:
        self.where, self._live, self._gone, self._first_away = "cluster", live, gone, first_away
        self.asked: list[str] = []

    async def masters(self) -> list[Link]:
        return [self._gone, self._live]

    def link_for(self, key: str) -> Link:
        even = int(key.partition("{")[2].partition("}")[0]) % 2 == 0
        return self._gone if even is self._first_away else self._live

    async def command(self, *command: Any, key: str = "") -> Any:
        node = self.link_for(key) if key else self._gone
        if node is self._gone:
            self.asked.append(key)
        return await node.command(*command)

    async def close(self) -> None:
        await self._live.close()
        await self._gone.close()


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("first_away", [False, True])
def test_a_cluster_with_a_master_away_is_examined_as_far_as_it_goes(
    embedded: Server,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first_away: bool,
) -> None:
    open_store(embedded, partitions=6)
    links: list[Parted] = []

    def open_link(settings: StoreSettings) -> Link:
        live, gone = (
            store_modes.open_link(replace(settings, redis_url=f"unix://{each}"))
            for each in (embedded.socket, tmp_path / "nobody")
        )
        links.append(Parted(live, gone, first_away))
        return links[-1]

    monkeypatch.setattr(doctor_command, "open_link", open_link)
    code = main(["doctor", "--redis-url", "redis+cluster://a:1,b:2", "--json", "--partitions", "6"])
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    states = {each["check"]: each["state"] for each in found}
    assert {name for name, state in states.items() if state == "warn"} >= {"server", "records"}
    assert {name for name, state in states.items() if state == "ok"} >= {
        "version", "library", "partitions", "data", "timing", "claims",
    }  # fmt: skip
    (unread,) = (each for each in found if each["check"] == "records")
    assert f"partitions {'0, 2, 4' if first_away else '1, 3, 5'}:" in unread["text"]
    assert len(links[0].asked) == 1, "each further call could wait for the whole timeout"

    code = main(["doctor", "--redis-url", "redis+cluster://a:1,b:2", "--json", "--partitions", "4"])
    states = {each["check"]: each["state"] for each in json.loads(capsys.readouterr().out)}
    assert (code, states["partitions"]) == (1, "refuse")


@pytest.mark.usefixtures("real")
def test_a_user_that_is_refused(embedded: Server, doctor: Doctor) -> None:
    code, found = doctor(url=f"unix://atf:wrong@{embedded.socket}")
    assert (code, found["acl"]["state"]) == (1, "refuse")
    assert "atf doctor --acl" in found["acl"]["mend"]
    assert "wrong@" not in str(found)


def test_the_user_that_is_printed_may_do_all(
    real: redis.Redis, embedded: Server, doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--acl"]) == 0
    printed = capsys.readouterr()
    words = printed.out.split()
    password = next(each[1:] for each in words if each.startswith(">"))
    assert words == acl_user(password).split()
    assert f"redis://atf:{password}@HOST" in printed.err
    client: Any = real
    client.execute_command("ACL", "SETUSER", "printed", *words[2:])
    code, found = doctor(url=f"unix://printed:{password}@{embedded.socket}")
    assert (code, found["acl"]["state"]) == (0, "ok")
    assert password not in str(found)
    client.execute_command("ACL", "SETUSER", "printed", "-zadd")
    code, found = doctor(url=f"unix://printed:{password}@{embedded.socket}")
    assert (code, found["acl"]["mend"].split(", then")[0]) == (1, "ACL SETUSER printed +zadd")
    client.execute_command("ACL", "DELUSER", "printed")


@pytest.mark.usefixtures("real")
def test_settings_that_nothing_reads(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATF_THRAEDS", "4")
    code, found = doctor()
    assert (code, found["settings"]["state"], found["settings"]["value"]) == (0, "warn", "ATF_THRAEDS")
    (tmp_path / "atf.toml").write_text("[executor]\nthraeds = 4\n", encoding="utf-8")
    monkeypatch.delenv("ATF_THRAEDS")
    code, found = doctor()
    assert (code, found["settings"]["state"]) == (1, "refuse")
    assert "did you mean threads?" in found["settings"]["text"]
    (tmp_path / "atf.toml").write_text("[executor]\nthreads = 0\n", encoding="utf-8")
    code, found = doctor()
    assert (code, "at least 1 each" in found["settings"]["text"]) == (1, True)
    (tmp_path / "atf.toml").write_text("[executor]\nthreads = 4\n", encoding="utf-8")
    code, found = doctor()
    assert (code, found["settings"]["value"]) == (0, "atf.toml")


# --- the length of leases ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("real")
def test_the_timeout_on_record_is_shown_and_changed(embedded: Server, capsys: pytest.CaptureFixture[str]) -> None:
    open_store(embedded)
    command = ["store", "timing", "--redis-url", f"unix://{embedded.socket}", "--partitions", "2"]

    def timing(*flags: str) -> tuple[int, str, str]:
        code = main([*command, *flags])
        return code, *capsys.readouterr()

    assert timing() == (0, "heartbeat_timeout = 16 s\n", "")
    assert timing("--set", "30")[1].startswith("heartbeat_timeout = 30 s\nset it for every role")
    assert timing("--json")[1] == '{"heartbeat_timeout_us": 30000000}\n'
    code, _, said = timing("--set", "20")
    assert (code, "--all-stopped" in said) == (2, True)
    code, _, said = timing("--set", "5", "--all-stopped")
    assert (code, "too short" in said) == (2, True)
    assert timing("--set", "20", "--all-stopped")[0] == 0
    assert timing()[1] == "heartbeat_timeout = 20 s\n"
    open_store(embedded, heartbeat_timeout=20)


# --- judgements -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("libraries", "used", "state", "says"),
    [
        ({}, None, State.OK, "not there yet"),
        ({library.NAME: library.CURRENT.source}, {library.NAME: 3}, State.OK, f"{library.NAME} (this release's, 3 connections)"),
        ({library.NAME: "another"}, None, State.REFUSE, f"FUNCTION DELETE {library.NAME}"),
        ({library.NAME: library.CURRENT.source, "atf_1_00000000": ""}, {"atf_1_00000000": 2}, State.OK, "another release's, 2 connections"),
        ({library.NAME: library.CURRENT.source, "atf_1_00000000": ""}, {}, State.OK, "nobody calls atf_1_00000000 now"),
        ({library.NAME: library.CURRENT.source, "atf_1_00000000": ""}, None, State.OK, "others stand beside it"),
        ({"atf_99_00000000": ""}, None, State.REFUSE, "of data version 99"),
        ({"atf_0_00000000": ""}, None, State.OK, "of data version 0"),
    ],
)  # fmt: skip
def test_libraries(libraries: dict[str, str], used: dict[str, int] | None, state: State, says: str) -> None:
    found = contents.judge_libraries(libraries, used)
    assert found.state is state
    assert says in f"{found.value} {found.sentence}"


@pytest.mark.parametrize(
    ("changed", "check", "state", "says"),
    [
        ({}, "data", State.OK, "this release's"),
        ({"data": "99"}, "data", State.REFUSE, "atf store export"),
        ({"timeout": str(30 * US)}, "timing", State.REFUSE, "cut off. Mend it: atf store timing --set 30"),
        (
            {"pause_until": str(NOW_US + 7 * US), "cause": "import"},
            "claims",
            State.WARN,
            "no task in 1 of 2 partitions starts for at least another 7 s: claims are paused, since tasks were imported",
        ),
        (
            {"pause_until": str(NOW_US + 7 * US), "cause": "restart", "waits_for": "1"},
            "claims",
            State.WARN,
            "starts for another 7 s: claims are paused, since a server of the task store restarted or was replaced",
        ),
        ({"pause_until": str(NOW_US), "cause": "import", "pause_over": str(NOW_US)}, "claims", State.OK, "start"),
        (
            {"pause_until": str(NOW_US), "cause": "import"},
            "claims",
            State.WARN,
            "until a store consumer has seen the pause",
        ),
        (
            {"pause_until": str(NOW_US), "cause": "import", "pause_over": str(NOW_US - 1)},
            "claims",
            State.WARN,
            "until a store consumer has seen the pause",
        ),
    ],
)
def test_records(changed: dict[str, str], check: str, state: State, says: str) -> None:
    found = {
        each.check: each for each in contents.judge_partitions([RECORD, {**RECORD, **changed}], 2, 2, Timing(), NOW_US)
    }
    assert found[check].state is state
    assert says in found[check].sentence
    assert all(each.state is State.OK for name, each in found.items() if name != check)


def test_a_store_that_only_tools_have_opened() -> None:
    made = [{"partitions": "1", "data": "1"}]
    found = {each.check: each for each in contents.judge_partitions(made, 1, 1, Timing(), NOW_US)}
    assert {each.state for each in found.values()} == {State.OK}
    assert found["timing"].value == "none yet"
