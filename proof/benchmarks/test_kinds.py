"""The two kinds of lambda that the question `kinds` compares."""

from __future__ import annotations

import importlib.util

import pytest

from proof.benchmarks.questions.i_kinds import KINDS
from proof.benchmarks.systems import atf as system


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_of_ours_has_the_lambda_of_its_kind_alone(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv(system.LAMBDA, kind)
    spec = importlib.util.find_spec(system.__name__)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    assert {name: each.is_async for name, each in fresh.app.lambdas.items()} == {"bench/noop": kind != "def"}
