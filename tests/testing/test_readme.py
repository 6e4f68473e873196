"""The readme's example is what a reader copies first: its lambda and its test are run as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_lambda_of_the_readme_passes_the_test_of_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (lambdas,) = (block for block in blocks if "@app.task" in block)
    (test,) = (block for block in blocks if "def test_" in block)
    photos = ModuleType("photos")
    monkeypatch.setitem(sys.modules, "photos", photos)
    exec(lambdas, photos.__dict__)

    found: dict[str, Any] = {}
    exec(test, found)

    (run,) = (each for name, each in found.items() if name.startswith("test_"))
    run()
