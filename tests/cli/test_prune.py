"""Jobs that have left the code are named at each registration, and deleted where that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from atf.rpc import frontend_pb2 as f, job_pb2 as j

from .conftest import Atf, FakeFrontend

CODE = """import atf
app = atf.App("left")
@app.task(schedule="@daily")
def kept() -> None: ...
@app.task
def bare() -> None: ...
"""


@pytest.fixture
def jobs(frontend: FakeFrontend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeFrontend:
    (tmp_path / "left_app.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, code in (
        ("left/kept", "a"),
        ("left/bare", "b"),
        ("left/gone", "c"),
        ("left/other", "d"),
        ("left/hand", ""),
    ):
        frontend.jobs.append(j.Job(spec=j.JobSpec(name=name, code=code)))
    for name in ("left/bare", "left/other"):  # this code's own, and one of another app in the namespace
        frontend.lambdas.append(f.LambdaInfo(spec=f.LambdaSpec(name=name), served=True))
    return frontend


def test_they_are_named_and_go_on(atf: Atf, jobs: FakeFrontend) -> None:
    ran = atf("lambda", "register", "left_app:app")
    assert ran.code == 0
    assert [line.split()[4] for line in ran.err.splitlines()] == ["left/bare", "left/gone", "left/other"]
    assert "left/gone is not in the code any more, and goes on: --prune deletes it" in ran.err
    assert "left/other is not in the code any more, and goes on: live workers still run its lambda" in ran.err
    assert not [each for each in jobs.asked if isinstance(each, f.DeleteJobRequest)]


def test_pruned_are_those_that_nobody_else_runs(atf: Atf, jobs: FakeFrontend) -> None:
    refused = atf("lambda", "register", "left_app:app", "--prune")
    assert (refused.code, "--yes does it" in refused.err) == (2, True)
    looked = atf("lambda", "register", "left_app:app", "--prune", "--dry-run")
    assert "left/gone is not in the code any more, and goes on: it would be deleted" in looked.err
    ran = atf("lambda", "register", "left_app:app", "--prune", "--yes")
    deleted = [each.name for each in jobs.asked if isinstance(each, f.DeleteJobRequest)]
    assert deleted == ["left/bare", "left/gone"]
    assert "atf: deleted the job left/gone" in ran.err
    assert "--yes: of no use without --prune" in atf("lambda", "register", "left_app:app", "--yes").err
