"""Makes text of others fit to show: spells out what would act on a terminal, and says "[encrypted]" for what is.

A payload, an error or a label comes from whoever schedules tasks; an escape sequence in it must not move the cursor, set a
title or hide a line of the terminal on which an operator looks at it, and no bidirectional control turn its order.
"""

from __future__ import annotations

import re

from atf.sdk.sealed import words

_ACTS = (
    r"\x00-\x1f\x7f-\x9f"  # control characters; with \x9b, the escape sequences of eight bits
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    r"\u2028\u2029"  # line separators
    r"\u200b\u2060-\u2064\ufeff\U000e0000-\U000e007f"  # invisible
    r"\ud800-\udfff"  # half a character: no encoding has it
)
_ALL = re.compile(f"[{_ACTS}]")
_WITHIN_LINES = re.compile(rf"(?!\n)[{_ACTS}]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def one_line(text: str) -> str:
    """The text with everything escaped that acts on a terminal, line ends and tabs included."""
    return words(text) if text.isascii() and text.isprintable() else _ALL.sub(_escaped, words(text))


def visible(text: str) -> str:
    """The same for text of several lines: line ends stay."""
    return _WITHIN_LINES.sub(_escaped, words(text))


def json_text(document: str) -> str:
    """A JSON document in which all that acts on a terminal, or that UTF-8 lacks, is written in JSON's own escapes."""
    return _ALL.sub(_json_escaped, words(document))


def _escaped(match: re.Match[str]) -> str:
    number = ord(match[0])
    if match[0] in _NAMED:
        return _NAMED[match[0]]
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _json_escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
