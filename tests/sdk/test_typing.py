"""A type checker, and so an editor, knows a lambda's own arguments and result, without the context."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.mark.processes
def test_mypy_sees_the_arguments_and_results_of_lambdas() -> None:
    cache = ROOT / ".mypy_cache" / "typed_sample"  # apart from the one of a check that runs at the same time
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(HERE / "typed_sample.py")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
