"""The names of `import atf`."""

from __future__ import annotations

from types import ModuleType

import pytest

import atf
from atf import public


def test_every_name_is_there_and_no_other() -> None:
    given = {
        name for name, value in vars(public).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }

    assert given - {"annotations"} == set(atf.__all__) - {"__version__"}
    assert set(dir(atf)) >= set(atf.__all__)
    assert atf.Client is public.Client


def test_a_wrong_name_is_an_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'atf' has no attribute 'Clinet'"):
        atf.Clinet  # type: ignore[attr-defined]  # noqa: B018
