"""Judges an HTTP answer: a result, a failure that may pass, or one that will not. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from atf.task import clip
from atf.visible import one_line

MAX_BODY_BYTES: Final = 48 << 10
"""Of an answer's body, as JSON: what of it a result holds. With the rest it stays within the 64 KiB of a result."""
_SHOWN_BODY_BYTES: Final = 512
"""Of an answer's body, as an error shows it."""
_SHOWN_URL_CHARS: Final = 256

MAX_RETRY_AFTER_S: Final = 86_400.0
"""Seconds that a Retry-After may ask for; a longer one counts as this."""

UNAVAILABLE: Final = 503
_PASSING: Final = frozenset({408, 425, 429})
_SECONDS: Final = re.compile(r"[0-9]{1,18}")
_ONE_BYTE: Final = frozenset({"iso-8859-1", "latin-1", "windows-1252"})


class HttpAnswer(NamedTuple):
    """What an address answered."""

    status: int
    headers: Mapping[str, str]
    """By name, whatever its case."""
    body: bytes
    """Its beginning."""
    truncated: bool
    """Whether the body goes on."""
    charset: str = ""

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def broken(self) -> bool:
        """Whether the address itself seems to be at fault."""
        return 500 <= self.status < 600

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.broken or self.status in _PASSING

    def text(self) -> str:
        """The body's beginning as text; what is none shows as U+FFFD."""
        return self.body.decode("latin-1" if self.charset.lower() in _ONE_BYTE else "utf-8", "replace")


def result_of(answer: HttpAnswer, origin: str) -> dict[str, object]:
    """What is recorded of a success."""
    body = answer.text()
    short = _fitting(body)
    return {
        "status": answer.status,
        "content_type": clip(answer.headers.get("Content-Type", ""), 256),
        "body": short,
        "truncated": answer.truncated or len(short) < len(body),
        "url": origin,
    }


def error_of(answer: HttpAnswer, origin: str, url: str, without_sent: Callable[[str], str] = str) -> str:
    """A failure as a sentence, with the beginning of the body; of a redirect, with where it pointed.

    Args:
        answer: what came.
        origin: of the address, for people.
        url: of the address, against which a redirect is read.
        without_sent: takes out of a text what the target has echoed.
    """
    try:
        phrase = f" {HTTPStatus(answer.status).phrase}"
    except ValueError:
        phrase = ""
    said = f"{origin} answered {answer.status}{phrase}"
    if 300 <= answer.status < 400 and answer.status != HTTPStatus.NOT_MODIFIED:
        return f"{said}: redirects are not followed; it points to {_pointed(url, answer.headers.get('Location', ''), without_sent)}"
    body = one_line(without_sent(clip(answer.text(), _SHOWN_BODY_BYTES).strip()))
    return f"{said}: {body}" if body else said


def retry_after_s(headers: Mapping[str, str], wall_us: int) -> float | None:
    """Seconds that Retry-After asks for, counted from the answer's own Date where it has one; None: nothing, or none to come.

    Args:
        headers: of the answer.
        wall_us: the host's clock, microseconds since the epoch.
    """
    text = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    elif (until := _instant(text)) is not None:
        seconds = until - (_instant(headers.get("Date", "")) or wall_us / 1e6)
    else:
        return None
    return min(seconds, MAX_RETRY_AFTER_S) if seconds > 0 else None


def _instant(text: str) -> float | None:
    """An HTTP date as seconds since the epoch."""
    try:
        found = parsedate_to_datetime(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _fitting(text: str) -> str:
    """The beginning of a text that takes at most MAX_BODY_BYTES as JSON."""
    if len(msgspec.json.encode(text)) <= MAX_BODY_BYTES:
        return text
    return text[
        : bisect_right(range(len(text)), MAX_BODY_BYTES, key=lambda end: len(msgspec.json.encode(text[:end]))) - 1
    ]


def _pointed(url: str, location: str, without_sent: Callable[[str], str]) -> str:
    """Where a redirect pointed, without what may be a secret: query, user and password, and what was sent."""
    try:
        parts = urlsplit(urljoin(url, location))
        path = without_sent(parts.path[:_SHOWN_URL_CHARS])
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"
    except ValueError:
        return "no URL"
    return one_line(place[:_SHOWN_URL_CHARS]) if location else "nowhere"
