"""What systemd is told of a process that it has started with Type=notify."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from atf.errors import Unavailable
from atf.process.role import Process, StoppedEarly
from atf.process.service_manager import ServiceManager
from atf.testing.loop import VirtualLoop


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where systemd listens; the environment says so."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@atf-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listens:
        listens.bind("\0" + name[1:] if name.startswith("@") else name)
        listens.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield listens


def heard(manager: socket.socket) -> list[str]:
    lines = []
    try:
        while True:
            lines.append(manager.recv(4096).decode())
    except BlockingIOError:
        return lines


async def test_it_hears_what_a_role_waits_for_that_it_serves_and_that_it_drains(manager: socket.socket) -> None:
    process = Process("frontend")

    async def store_is_away() -> None:
        process.stop("SIGTERM")
        raise Unavailable("no answer\nfrom 127.0.0.1:6379")

    process.ready("127.0.0.1:7401")
    process.ready()
    with pytest.raises(StoppedEarly):
        await process.retry_until_available(store_is_away, "the task store")
    assert heard(manager) == [
        "READY=1\nSTATUS=serves at 127.0.0.1:7401",
        "READY=1\nSTATUS=works",
        "STOPPING=1\nSTATUS=drains: SIGTERM",
        "STATUS=waits for the task store: no answer from 127.0.0.1:6379",
    ]
    assert "NOTIFY_SOCKET" not in os.environ, "what it starts is not the service"


@pytest.mark.parametrize(
    ("watched", "within", "every"),
    [("me", "30000000", 10.0), ("", "3000000", 1.0), ("1", "30000000", 0.0), ("me", "", 0.0), ("me", "x", 0.0)],
)
def test_signs_of_life_are_given_thrice_in_the_time_if_they_are_wanted_of_this_process(
    watched: str, within: str, every: float
) -> None:
    environment = {"NOTIFY_SOCKET": "/run/none", "WATCHDOG_USEC": within, "OTHER": "stays"}
    environment["WATCHDOG_PID"] = watched.replace("me", str(os.getpid()))
    assert ServiceManager(environment).alive_every_s == every
    assert environment == {"OTHER": "stays"}


def test_signs_of_life_come_while_the_loop_goes_round(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    process, loop = Process("hsc"), VirtualLoop()

    async def minute() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.give_signs_of_life(), 59)

    loop.run_until_complete(minute())
    loop.close()
    assert heard(manager) == ["WATCHDOG=1"] * 6


async def test_where_nobody_listens_nothing_is_said_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    Process("hsc").ready()
    ServiceManager({"NOTIFY_SOCKET": "/run/nobody/listens"}).ready("works")
    process = Process("hsc")
    await process.give_signs_of_life()
    assert process.service_manager.alive_every_s == 0
