"""Tests of lambdas: a whole pipeline in one process, on a clock that the test moves.

    from atf.testing import Harness

    with Harness(app) as h:
        handle = thumbnail.options(delay=30).schedule("cat.jpg")
        h.advance(30)
        assert h.result(handle) == {"size": 256}

With pytest, the fixture `atf_harness` does the same (plugin.py). Needs `pip install "atf-tasks[testing]"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .harness import Harness

__all__ = ["Harness"]


def __getattr__(name: str) -> Any:
    """Loads the harness when it is first asked for: pytest imports this package in every run, the roles only where used."""
    if name == "Harness":
        from .harness import Harness

        return Harness
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
