"""What a page is made from and what it is made of: the request on one side, a template and its values on the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from atf.errors import InvalidArgument
from atf.rpc import api

from .log_watch import LogWatches
from .reads import SharedReads
from .samples import Samples
from .zones import Instants

PAGE_ROWS: Final = 100
"""Rows of a page at most."""
MAX_QUERY_CHARS: Final = 2_000
"""Of one value of a URL."""


@dataclass(frozen=True)
class Visit:
    """A request for a page."""

    frontend: api.Frontend
    """For what is asked once; what a page shows again and again is asked through `read`."""
    read: SharedReads
    samples: Samples
    logs: LogWatches
    query: Mapping[str, str]
    """The values of the URL."""
    names: Mapping[str, str]
    """What stands in its path."""
    instants: Instants
    now_us: int

    def word(self, name: str, allowed: tuple[str, ...]) -> str:
        """A value of the URL that is one of some words; the first of them where it is none."""
        given = self.query.get(name, "")
        return given if given in allowed else allowed[0]


class PageView(NamedTuple):
    """A page: what a template is filled with."""

    template: str
    title: str
    values: Mapping[str, Any]
    live: bool = True
    """Whether it is refreshed while somebody looks."""


def check_query(query: Mapping[str, str]) -> None:
    """Whether the values of a URL have a length that a page can carry on.

    Raises:
        InvalidArgument: one is too long.
    """
    for name, value in query.items():
        if len(value) > MAX_QUERY_CHARS or len(name) > MAX_QUERY_CHARS:
            raise InvalidArgument(f"{name[:40]}: {len(value)} characters; give at most {MAX_QUERY_CHARS}")
