"""How the tests write plans and instants."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from atf.errors import InvalidArgument
from atf.schedule.instants import parse_instant, text_of
from atf.schedule.plan import Plan
from atf.schedule.refusal import GivenText

BASE = "2026-01-01T00:00:00Z"


def us(text: str) -> int:
    return parse_instant(GivenText("test", text))


def fires(count: int = 3, base: str = BASE, **fields: Any) -> list[str]:
    """The first instants at which a job fires."""
    return [text_of(tick) for tick in islice(Plan.parse(base_us=us(base), **fields), count)]


def refusal(base: str = BASE, **fields: Any) -> str:
    """What is answered to a job that is refused."""
    with pytest.raises(InvalidArgument) as caught:
        Plan.parse(base_us=us(base), **fields)
    return str(caught.value)
