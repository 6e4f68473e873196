"""The pytest plugin: it comes with the `testing` extra and is there without being named.

Say once which apps a test suite is about, in its configuration,

    [tool.pytest.ini_options]
    atf_apps = ["shop.tasks:app"]

or where a module's tests are about another one, by a fixture of this name:

    @pytest.fixture
    def atf_apps():
        return [app]

Then every test that asks for `atf_harness` gets a pipeline of its own, on a clock that it moves:

    def test_a_reminder_goes_out_after_a_day(atf_harness):
        remind.options(delay=86_400).schedule("anna")
        atf_harness.advance(86_399)
        assert outbox == []
        atf_harness.advance(1)
        assert outbox == ["anna"]

It works in tests that are `async def` too. This module is imported in every pytest run, so it loads nothing before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from atf.sdk.app import App

    from .harness import Harness


def pytest_addoption(parser: pytest.Parser) -> None:
    """Pytest's hook: declares the setting."""
    parser.addini(
        "atf_apps", "apps that `atf_harness` runs, as module:variable, one per line", type="linelist", default=[]
    )


@pytest.fixture
def atf_apps(pytestconfig: pytest.Config) -> Sequence[App]:
    """The apps that `atf_harness` runs: by default those of the setting `atf_apps`; define a fixture of this name to say others."""
    named: list[str] = pytestconfig.getini("atf_apps")
    if not named:
        raise pytest.UsageError(
            "atf_harness does not know which apps to run: set atf_apps in pytest's configuration, as module:variable, or define"
            " a fixture atf_apps that returns a list of atf.App"
        )
    return [_app(each) for each in named]


@pytest.fixture
def atf_harness(atf_apps: Sequence[App]) -> Iterator[Harness]:
    """A pipeline for this test alone, on a clock that the test moves: see atf.testing.Harness."""
    from atf.testing import Harness  # names the extra where something of it is missing

    with Harness(*atf_apps) as harness:
        yield harness


def _app(name: str) -> App:
    from atf.errors import ConfigError
    from atf.sdk.loading import load_apps

    try:
        (app,) = load_apps([name])
    except ConfigError as error:
        raise pytest.UsageError(f"atf_apps: {error}") from error
    return app
