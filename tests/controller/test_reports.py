"""What becomes of a report that the HSC has answered only in part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from atf.config.settings import Timing
from atf.controller.reports import Reports
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual


class Hsc:
    """Answers SetResults as it is told, then with OK."""

    def __init__(self, *answers: Sequence[h.Verdict]) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    async def set_results(self, request: h.SetResultsRequest, *, timeout: float = 10) -> h.SetResultsReply:
        self.asked.append([each.claim.task_id for each in request.results])
        return h.SetResultsReply(verdicts=self.answers.pop(0) if self.answers else [h.OK] * len(request.results))

    async def report_loss(self, request: h.ReportLossRequest, *, timeout: float = 10) -> h.ReportLossReply:
        of: dict[str, Any] = {"lambda": "shop/mail"}
        runs = [
            h.LostRun(task_id="0-a", **of, attempt=1, losses=1, max_losses=3),
            h.LostRun(task_id="0-b", **of, attempt=2, losses=3, max_losses=3, last=True),
        ]
        return h.ReportLossReply(verdicts=[h.OK, h.OK, h.OK, h.LOST], runs=runs)


class World:
    def __init__(self, runtime: VirtualRuntime) -> None:
        self.hsc = Hsc()
        hsc: Any = self.hsc
        self.lost: list[str] = []
        self.reports = Reports(hsc=hsc, timing=Timing(), runtime=runtime, lost=self.lost.append)


@asynccontextmanager
async def opened(runtime: VirtualRuntime) -> AsyncIterator[World]:
    yield World(runtime)


@virtual(opened)
async def test_results_that_a_part_of_the_store_did_not_take_are_told_again(world: World) -> None:
    world.hsc.answers = [[h.OK, h.UNKNOWN], [h.OK, h.UNKNOWN]]
    results = [h.Result(claim=t.ClaimRef(task_id=each), outcome=t.TIMED_OUT) for each in ("0-a", "1-b")]
    world.reports.set_results("e1", results)
    assert await world.reports.flush(60) == 0
    assert world.hsc.asked == [["0-a", "1-b"]] * 3


def test_each_run_that_was_lost_with_its_executor_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    @virtual(opened)
    async def story(world: World) -> None:
        claims = [t.ClaimRef(task_id=each) for each in ("0-a", "0-b", "0-c", "0-d")]
        world.reports.report_loss("e1", claims, "killed by SIGKILL")
        assert await world.reports.flush(60) == 0
        assert world.lost == ["shop/mail"] * 2, "of each whose lambda is known"

    story()
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "0-d" in line] == [], "that one was lost before"
    expected = {"0-a": ("warning", "1 of 3"), "0-b": ("error", "3 of 3"), "0-c": ("warning", "")}
    for task_id, (level, loss) in expected.items():
        (line,) = [line for line in lines if task_id in line]
        for part in (level, loss, "run lost", "e1", "killed by SIGKILL"):
            assert part in line
