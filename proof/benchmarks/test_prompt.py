"""Lone tasks: what counts as a call of the store, and hosts that are apart."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Self

import pytest

from proof.benchmarks import driver
from proof.benchmarks.far import FarHosts
from proof.benchmarks.known import COMPACT_DIRECT, SYSTEMS
from proof.benchmarks.question import Sizes, all_questions
from proof.benchmarks.questions import k_prompt

_MS = 1_000_000


class LoneTaskWorld:
    """Each task is called at its number of s, and starts 3 ms later."""

    socket = "nowhere"

    def __init__(self) -> None:
        self.client = self.ledger = self
        self.asked: list[int] = []

    def __call__(self, *_: Any, **__: Any) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def ask(self, verb: str, *, number: int) -> dict[str, int]:
        assert verb == "prompt"
        self.asked.append(number)
        return {"called": number * 1000 * _MS}

    async def finished(self, numbers: range) -> int:
        assert [*numbers] == self.asked[-1:]
        return 0

    def starts(self, numbers: range) -> list[int]:
        return [number * 1000 * _MS + 3 * _MS for number in numbers]

    def never(self, _numbers: range) -> int:
        return 0

    twice = never


async def test_a_lone_task_is_measured_from_its_call_and_its_calls_of_the_store_aside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world, writers = LoneTaskWorld(), list[asyncio.StreamWriter]()
    world.socket = str(tmp_path / "s")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        assert await reader.readline() == b"MONITOR\r\n"
        writer.write(b"+OK\r\n")
        for number in range(2, 30):  # s; two commands while the task waits, a script's own, and one behind its start
            for ms, who in ((0.5, b"0 unix:s"), (1, b"0 lua"), (2.5, b"0 1.2.3.4:5"), (4, b"0 unix:s")):
                writer.write(b'+%.6f [%s] "FCALL" "x] lua]"\r\n' % (number + ms / 1000, who))

    monkeypatch.setattr(k_prompt, "BenchmarkWorld", world)
    monkeypatch.setattr(k_prompt, "_REST_S", (0.0, 0.0))
    monkeypatch.setattr(k_prompt, "wall_minus_monotonic_ns", lambda: 0)
    server = await asyncio.start_unix_server(answer, world.socket)
    found = await k_prompt.prompt(SYSTEMS["atf"], Sizes(singles=2))
    server.close()
    for each in writers:
        each.close()
    assert found["start_ms"]["p50"] == found["start_ms"]["p99"] == 3.0
    assert found["store_calls"] == 2
    assert world.asked == [*range(22)]


async def test_what_goes_to_a_host_that_is_far_takes_its_time_each_way() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with FarHosts.running(40.0) as far:
        address = await far.link(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for text in (b"a", b"b"):
            began = time.monotonic()
            writer.write(text)
            assert await reader.read(100) == text
            assert time.monotonic() - began >= 0.04
        writer.write_eof()
        writer.close()
    server.close()


def test_each_of_ours_runs_beside_celery_and_a_client_without_threads_may_be_called() -> None:
    question = all_questions()["prompt"]
    assert question.pivot == "celery"
    assert {each.of for each in question.bars} <= {*question.systems}
    assert SYSTEMS[COMPACT_DIRECT].direct
    assert SYSTEMS[COMPACT_DIRECT].compact

    class One(driver.SystemClient):
        def one(self, number: int) -> None:
            self.number = number

    client = One()
    before = time.monotonic_ns()
    assert before <= client.prompt(7) <= time.monotonic_ns()
    assert client.number == 7
