"""A bar chart as SVG: one bar per system, or per level of one, with its whisker from the least round to the largest.

Own code, since a page that is checked byte by byte has to come out the same on every machine: a plotting library's paths change
with its version, its fonts and its numbers' last digits. It knows no question and no system.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _BAR = 720, 180, 130, 30, 44, 18
_LINE: Final = 18
_LETTER: Final = 7
"""Of a name or a title: more than most take, so that long ones stay within the picture."""
_OURS, _PEER, _INK, _FAINT = "#1f6feb", "#8c959f", "#57606a", "#d0d7de"
_UNITS: Final = {"per_s": "/s", "us": " µs", "ms": " ms", "s": " s", "mib": " MiB", "percent": " %", "ratios": " ×"}
"""What a figure's name says of its unit; the first one that it has counts."""
_FONT: Final = "font-family='system-ui, sans-serif' font-size='13'"


class ChartBar(NamedTuple):
    """One bar: its name, the median, the least and largest round, whether it is ours, and a word in place of a figure."""

    name: str
    value: float | None
    least: float = 0.0
    most: float = 0.0
    ours: bool = False
    word: str = ""


def chart(title: str, unit: str, bars: Sequence[ChartBar]) -> str:
    """The picture."""
    titles = textwrap.wrap(title, (_WIDTH - 24) // _LETTER)
    top = _TOP + _LINE * (len(titles) - 1)
    height = top + _ROW * len(bars) + 12
    left = max(_LEFT, _LETTER * max((len(each.name) for each in bars), default=0) + 20)
    scale = (_WIDTH - left - _RIGHT) / (max((each.most for each in bars if each.value is not None), default=0.0) or 1.0)
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' viewBox='0 0 {_WIDTH} {height}' role='img'>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{_WIDTH}' height='{height}' fill='#ffffff'/>",
        *(
            f"<text x='12' y='{24 + _LINE * place}' {_FONT} font-weight='600' fill='{_INK}'>{escape(line)}</text>"
            for place, line in enumerate(titles)
        ),
        f"<line x1='{left}' y1='{top - 6}' x2='{left}' y2='{height - 8}' stroke='{_FAINT}'/>",
    ]
    for place, each in enumerate(bars):
        lines += _row(left, top + place * _ROW, each, unit, scale)
    return "\n".join([*lines, "</svg>", ""])


def _row(left: int, top: int, bar: ChartBar, unit: str, scale: float) -> list[str]:
    middle = top + _BAR / 2
    name = f"<text x='{left - 10}' y='{middle + 4:g}' {_FONT} text-anchor='end' fill='{_INK}'>{escape(bar.name)}</text>"
    if bar.value is None:
        return [name, f"<text x='{left + 8}' y='{middle + 4:g}' {_FONT} fill='{_INK}'>{escape(bar.word)}</text>"]
    length, least, most = (round(each * scale, 1) for each in (bar.value, bar.least, bar.most))
    colour = _OURS if bar.ours else _PEER
    return [
        name,
        f"<rect x='{left}' y='{top}' width='{length:g}' height='{_BAR}' fill='{colour}'/>",
        f"<line x1='{left + least:g}' y1='{middle:g}' x2='{left + most:g}' y2='{middle:g}' stroke='{_INK}'/>",
        f"<text x='{left + most + 8:g}' y='{middle + 4:g}' {_FONT} fill='{_INK}'>{number(bar.value)} {escape(unit)}</text>",
    ]


def number(value: float) -> str:
    """A figure in about three digits, thousands set apart."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def with_unit(value: float, path: str) -> str:
    """A figure with the unit that the name of what it is a part of says, such as cpu_us."""
    units = (unit for name, unit in _UNITS.items() if re.search(rf"(^|[_.]){name}([_.]|$)", path))
    return number(value) + next(units, "")
