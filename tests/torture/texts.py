"""Texts that somebody may send, and how to tell whether one could act on a terminal."""

from __future__ import annotations

import unicodedata
from typing import Final

ESCAPES: Final = "\x1b[2J\x1b]0;owned\x07\x9b31m"
BIDI: Final = "\u202etxt.exe\u2066"

TEXTS: Final = {
    "empty": "",
    "NUL": "a\0b",
    "terminal escapes": ESCAPES,
    "bidi": BIDI,
    "markup": "<script>alert(1)</script>",
    "rich markup": "[bold red]x[/bold red][/]",
    "another line": "a\n2026-01-01 [error] it's all over",
    "carriage return": "accepted\rrefused",
    "line separator": "a\u2028b\u2029c\x85d",
    "format": "%s%n{0}{{}}$HOME`id`",
    "key of the store": "{0}photos/thumbnail:1",
    "path": "../../../etc/passwd",
    "space": " ",
    "emoji": "\U0001f600" * 50,
    "combining": "Z\u0351\u036b\u0343\u036a" * 40,
    "digits of another script": "\u0661-\u0662",
    "byte order mark": "\ufeffa",
    "tags": "a\U000e0041",
    "long": "x" * 5_000,
    "long and wide": "\U0001f600" * 1_000,
    "very long": "y" * 70_000,
}

INVALID_UTF8: Final = {
    "no start": b"\xff\xfe\xfd",
    "a surrogate": b"\xed\xa0\x80",
    "an overlong NUL": b"\xc0\x80\xc0",
    "cut off": b"\xf0\x9f\x98",
    "beyond the last character": b"\xf7\xbf\xbf",
}
"""Of three bytes each."""

BOMBS: Final = {
    "arrays": b"[" * 100_000,
    "closed arrays": b"[" * 100_000 + b"]" * 100_000,
    "objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "within an argument": b'{"path":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "digits": b'{"size":' + b"9" * 10_000 + b"}",
    "exponent": b'{"size":1e99999}',
    "half a character": b'{"path":"\\ud800"}',
    "NUL": b'{"path":"\\u0000\x00"}',
    "many keys": b"{" + b",".join(b'"k%d":0' % n for n in range(20_000)) + b"}",
    "the same key": b'{"path":"a","path":"b"}',
    "not finite": b'{"size":NaN}',
    "two documents": b'{"path":"a"}{"path":"b"}',
    "nothing": b"",
    "no UTF-8": b'{"path":"\xff"}',
    "UTF-16": '{"path":"a"}'.encode("utf-16"),
}
"""JSON that is none, or too much."""


def acts(text: str, allowed: str = "\n") -> list[str]:
    """The characters of a text that a terminal would obey, or that nobody could see."""
    return [
        each
        for each in text
        if each not in allowed
        and (unicodedata.category(each) in {"Cc", "Cs", "Zl", "Zp"} or unicodedata.bidirectional(each) in _TURNING)
    ]


_TURNING: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
