"""Makes text of others fit for a page: what acts or hides is spelled out, and what is long is cut until asked for."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup, escape

from atf.rpc import task_pb2 as t
from atf.sdk.sealed import is_sealed, without_sealed
from atf.visible import one_line, visible

SHOWN_BYTES: Final = 4 << 10
"""Of a payload, result or log, until somebody asks for all of it."""
MOST_CHARS: Final = 1_000
"""Of any other text."""
_PRETTY_BYTES: Final = 64 << 10
"""Of a JSON document that is laid out in lines; a larger one is shown as it came."""
_PLACE: Final = re.compile(r"""^( +)File "([^"\n]+)", line ([0-9]+)""", re.MULTILINE)
_DEPTH: Final = re.compile(rb"[\[{]{200}")


def shown(value: object) -> object:
    """What a template puts out: a text with everything spelled out that acts on a page or turns its order, and never more than a line or ten."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return one_line(value if len(value) <= MOST_CHARS else value[:MOST_CHARS] + "…")


def lines(text: str) -> Markup:
    """Text of several lines, for an element that keeps them."""
    return escape(visible(text))


def traceback_lines(text: str, editor_url: str) -> Markup:
    """A traceback, each file and line of which opens in the reader's editor where there is a URL for that."""
    if not editor_url:
        return lines(text)
    parts, at = [], 0
    for match in _PLACE.finditer(text):
        place = editor_url.replace("{path}", quote(match[2])).replace("{line}", match[3])
        parts += [
            lines(text[at : match.start()]),
            Markup('{}<a href="{}">{}</a>').format(match[1], place, lines(match[0][len(match[1]) :])),
        ]
        at = match.end()
    return Markup("").join([*parts, lines(text[at:])])


def readable(data: bytes, encoding: int) -> str:
    """A payload or result as text: JSON in lines where it is small, bytes that are no text in hexadecimal, "[encrypted]" for what is."""
    if is_sealed(data):
        return str(json.loads(without_sealed(data)))
    data = without_sealed(data)
    if encoding == t.JSON and len(data) <= _PRETTY_BYTES and not _DEPTH.search(data):
        try:
            return json.dumps(json.loads(data), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # not what it says it is: as it came
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data[: SHOWN_BYTES * 16].hex(" ", 4)


def cut(text: str, newest: bool = False) -> tuple[str, bool]:
    """The beginning of a text, or its end, and whether that is not all."""
    data = text.encode("utf-8", "replace")
    if len(data) <= SHOWN_BYTES:
        return text, False
    return (data[-SHOWN_BYTES:] if newest else data[:SHOWN_BYTES]).decode("utf-8", "ignore"), True


def size(number: int) -> str:
    """Bytes for people."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:,.1f} {unit}"
    return f"{number} bytes"


def number(value: float) -> str:
    """A number with its thousands apart."""
    return f"{value:,}"


def command_line(words: Iterable[str]) -> str:
    """A command as a shell takes it. A word with characters that nobody sees is written by their numbers."""
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    """One word of it."""
    if one_line(word) == word:
        return shlex.quote(word)
    written = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and chr(byte) not in "\\'" else f"\\x{byte:02x}"
        for byte in word.encode("utf-8", "replace")
    )
    return f"$'{written}'"


def json_data(value: Any) -> str:
    """Numbers for a chart, as the text of an attribute."""
    return json.dumps(value, separators=(",", ":"))
