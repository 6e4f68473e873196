"""For all tests: the same surroundings everywhere; no example of hypothesis has a deadline, since a busy machine is no bug; and fakeredis is quick."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from tests import quick_fakeredis, surroundings

surroundings.settle()
surroundings.settle_signals()
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
quick_fakeredis.install()
pytest_plugins = ["tests.unit_rules"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what `make test` has no time for, the same each time: long tests, and of sweeps all but every nth. `make long` runs all."""
    if os.environ.get("ATF_TEST_ALL"):
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    seen = Counter[tuple[Path, int]]()
    for item in items:
        every = min((mark.args[0] for mark in item.iter_markers("sweep")), default=1)
        number = seen[item.path, every]
        seen[item.path, every] += 1
        (left if number % every or item.get_closest_marker("long") else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Takes what was imported and collected out of the garbage collector's sight: all of it stays."""
    gc.collect()
    gc.freeze()
