"""Tests of lambdas: a whole pipeline in one process, on a clock that the test moves.

    from atf.testing import Harness

    with Harness(app) as h:
        handle = thumbnail.options(delay=30).schedule("cat.jpg")
        h.advance(30)
        assert h.result(handle) == {"size": 256}

In an `async def` test it is the same, or `async with`; calls may be awaited there: `await thumbnail.schedule_async("cat.jpg")`.
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
        try:
            import lupa  # noqa: F401  the store in memory runs its functions by it, and would miss it late

            from .harness import Harness
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == "atf":
                raise
            raise ModuleNotFoundError(
                f"atf.testing.Harness needs {error.name}, which is not installed: pip install 'atf-tasks[testing]'",
                name=error.name,
            ) from error
        return Harness
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
