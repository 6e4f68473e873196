"""Gates: tasks of a lambda are kept back, by their labels, until the gate is lifted; dead letters start afresh."""

from __future__ import annotations

import atf
from atf.testing import Harness

app = atf.App("gates")


@app.task
def mail(to: str) -> str:
    return to


@app.task(gate_at_fatal=0.5, max_attempts=1, version=2)
def fragile(works: bool) -> None:
    if not works:
        raise ValueError("it rained")


WEB = {"team": "web"}


def test_tasks_with_some_labels_wait_and_the_others_go_on(h: Harness) -> None:
    h.client.gate("gates/mail", "pause", labels=WEB, why="the provider is down", who="ada")
    kept, other = mail.options(labels=WEB).schedule("ada"), mail.schedule("bob")
    h.run_until_idle()
    assert (kept.status(), other.result()) == (atf.Status.NEW, "bob")
    assert "set by ada (the provider is down)" in h.client.explain(kept.id).sentence
    (gate,) = h.client.gates("gates/mail")
    assert gate.waiting == 1
    assert h.client.lift_gate("gates/mail", labels=WEB) == 1
    h.run_until_idle()
    assert kept.result() == "ada"
    assert [each.what for each in h.client.audit("gates/mail")] == ["lift_gate", "set_gate", "register_lambdas"]


def test_a_gate_may_end_by_itself(h: Harness) -> None:
    h.client.gate("gates/mail", "pause", until=60)
    handle = mail.schedule("ada")
    h.advance(59)
    assert handle.status() is atf.Status.NEW
    h.advance(2)
    assert handle.result() == "ada"


def test_a_lambda_that_fails_too_often_is_paused_by_itself(h: Harness) -> None:
    for number in range(20):
        fragile.schedule(number < 5)
    h.run_until_idle()
    h.advance(1)
    (gate,) = h.client.gates("gates/fragile")
    assert (gate.automatic, gate.why) == (
        True,
        "15 of 20 runs within a minute failed for good; its gate_at_fatal is 50 %",
    )
    assert fragile.schedule(True).status() is atf.Status.NEW
    h.client.resume("gates/fragile")
    h.run_until_idle()
    assert not h.client.gates("gates/fragile")


def test_the_runs_of_all_partitions_count_together_and_all_of_them_wait() -> None:
    with Harness(app, partitions=4) as h:
        failed = [fragile.schedule(number < 5) for number in range(20)]
        h.run_until_idle()
        h.advance(1)
        (gate,) = h.client.gates("gates/fragile")
        assert gate.why.startswith("15 of 20 runs")
        kept = [fragile.schedule(True) for _ in range(20)]
        partitions = [{each.id.partition("-")[0] for each in some} for some in (failed, kept)]
        assert partitions == [{"0", "1", "2", "3"}] * 2
        h.advance(60)
        assert {each.status() for each in kept} == {atf.Status.NEW}
        h.client.resume("gates/fragile")
        h.run_until_idle()
        assert {each.status() for each in kept} == {atf.Status.SUCCESS}


def test_dead_letters_start_afresh_by_a_filter(h: Harness) -> None:
    handle = fragile.schedule(False)
    h.run_until_idle()
    assert h.client.redrive("gates/fragile", dry_run=True, error="rained").ids == (handle.id,)
    assert h.client.redrive("gates/fragile", dry_run=False, newer_version=True).matched == 0, (
        "it failed with this version"
    )
    assert h.client.redrive("gates/fragile", dry_run=False, error="rained").redriven == 1
    h.run_until_idle()
    assert len(h.client.get(handle.id).ended_runs) == 2
