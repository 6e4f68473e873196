"""Living documentation: each module here shows one concept, on real roles, on a clock that the test moves.

A module names its app `app`; `h` is a pipeline that runs it. Read them in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from atf.testing import Harness


@pytest.fixture
def h(request: pytest.FixtureRequest) -> Iterator[Harness]:
    with Harness(request.module.app) as harness:
        yield harness
