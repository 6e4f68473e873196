"""The readme's example is what a reader copies first: its lambda runs as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from atf.testing import Harness

README = Path(__file__).parents[2] / "README.md"
SCREEN = 1_000
"""Pixels of a page on a common screen."""


def test_the_lambda_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    photos = ModuleType("photos")
    monkeypatch.setitem(sys.modules, "photos", photos)

    exec(block, photos.__dict__)

    with Harness(photos.app) as harness:
        assert harness.result(photos.thumbnail.schedule("cat.jpg")) == {"path": "cat.jpg", "size": 256}


def test_what_it_is_how_to_try_it_and_a_picture_fit_a_screen() -> None:
    first = README.read_text(encoding="utf-8").partition("\n## ")[0]
    (width,) = re.findall(r'<img .*width="(\d+)"', first)
    lines = [line for line in first.splitlines() if not line.startswith("<img")]
    assert "make demo" in first
    assert "make test" in first
    assert len(lines) * 20 + int(width) * 400 // 760 <= SCREEN, "lines of 20 pixels on average, and the picture"
