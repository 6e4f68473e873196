"""Where pages lead somebody who is in a hurry: from what is wrong to why, and away from what was deleted."""

from __future__ import annotations

from typing import Any

import pytest

from atf.rpc import frontend_pb2 as f, job_pb2 as j

from .conftest import Browser


def answer(monkeypatch: pytest.MonkeyPatch, browser: Browser, method: str, reply: Any) -> None:
    """Has the frontend answer so."""

    async def answered(_request: Any, *, timeout: float = 10) -> Any:
        assert timeout
        return reply

    monkeypatch.setattr(browser.frontend, method, answered)


async def test_a_lambda_that_fails_leads_to_its_failures(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = f.LambdaStatus(dead=3, failed_recently=3, failed_id="0-x", served=True)
    setattr(failing, "lambda", "a/b")
    answer(monkeypatch, browser, "get_status", f.GetStatusReply(now_us=1, lambdas=[failing]))
    _, page = await browser.get("/")
    verdict = page.partition('id="verdict"')[2].partition("</section>")[0]
    assert 'href="/failures?lambda=a%2Fb&amp;since=1h"' in verdict
    assert "atf get" not in verdict


async def test_a_job_that_ticks_all_day_is_a_band(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = browser.clock.wall_us()
    jobs = [
        j.Job(spec=j.JobSpec(name=f"a/{every}", schedule=f"@every {every}"), next_tick_at_us=now_us + 1_000_000)
        for every in ("1s", "6h")
    ]
    answer(monkeypatch, browser, "list_jobs", f.ListJobsReply(jobs=jobs))
    _, page = await browser.get("/jobs")
    often, seldom = page.partition("a/1s</a>")[2].split("a/6h</a>")
    assert often.count('<rect class="tick"') == 1
    assert seldom.count('<rect class="tick"') == 4


async def test_what_is_deleted_leads_to_what_is_left(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, browser, "get_job", j.Job(spec=j.JobSpec(name="a/b", schedule="@daily")))
    _, page = await browser.get("/jobs/a/b")
    form = page.partition('action="/do/delete-job"')[2].partition("</form>")[0]
    assert 'name="next" value="/jobs"' in form


async def test_cores_can_be_set_where_no_pool_has_any(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, browser, "list_capacity", f.ListCapacityReply())
    _, page = await browser.get("/cluster?tab=capacity")
    assert 'action="/do/set-cores"' in page
