"""The opening page of docs/benchmarks: the main figures in a table and a picture, and what they mean for a user."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from proof.benchmarks import svg

PICTURE: Final = "overview.svg"
_TITLE: Final = "how many times better than the best peer that loses nothing (below 1: ATF is behind)"


class Line(NamedTuple):
    """A question as the page shows it.

    Args:
        name: of the question.
        own: ATF's figure with its unit.
        best: the best peer's, with its name; "" where none is compared.
        better: ATF's figure in units of the peer's, pair by pair, such that more than 1 is better.
    """

    name: str
    own: str
    best: str = ""
    better: Sequence[float] = ()


def page(words: Mapping[str, Any], lines: Sequence[Line], means: Mapping[str, str]) -> str:
    """The page.

    Args:
        words: the table `front` of words.toml: title, intro, after.
        lines: in their order.
        means: of each question, what its figure means for a user. A question without any is left out.
    """
    rows = ["| question | ATF | best peer | what it means for you |", "|---|---|---|---|"]
    rows += [
        f"| [{each.name}](figures.md#{each.name}) | {each.own} | {each.best or '–'} | {means[each.name]} |"
        for each in lines
        if each.name in means
    ]
    drawn = [f"![{_TITLE}]({PICTURE})"] if bars(lines) else []
    return "\n\n".join([f"# {words['title']}", words["intro"].strip(), "\n".join(rows), *drawn, words["after"].strip()])


def bars(lines: Sequence[Line]) -> list[svg.ChartBar]:
    """A bar for each question in which a peer is compared."""
    return [
        svg.ChartBar(each.name, statistics.median(each.better), min(each.better), max(each.better), ours=True)
        for each in lines
        if each.better
    ]


def picture(lines: Sequence[Line]) -> str:
    """The bars as a picture."""
    return svg.chart(_TITLE, "×", bars(lines))
