"""Checks a request that `atf/http` is asked for: what goes out is what was looked at. Pure.

Whatever is refused is named by its argument. No message repeats a header's value, or of a URL more than its host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_plus

import msgspec

from atf.config.allowed_hosts import DEFAULT_PORTS, split_authority
from atf.errors import InvalidArgument
from atf.sdk.context import Context
from atf.sdk.payload import FAILS, reason, short

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DEFAULT_TIMEOUT_S: Final = 30.0
MAX_TIMEOUT_S: Final = 86_400.0
MAX_ADDRESSES: Final = 64
MAX_URL_CHARS: Final = 8_192
_SECRET_CHARS: Final = 8
"""So many in a row that were sent are not repeated."""
HIDDEN: Final = "[hidden]"

IDEMPOTENCY_HEADER: Final = "Idempotency-Key"
_OURS: Final = "atf-"
_REFUSED: Final = re.compile(
    "accept-encoding|connection|content-length|expect|host|http2-settings|keep-alive|proxy-authorization|proxy-connection|te|trailer"
    "|transfer-encoding|upgrade",
    re.IGNORECASE,
)
"""What belongs to the connection, not to the request; and compression, since a small answer could then be a huge one."""

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")


class TargetAddress(NamedTuple):
    """One place to send the request to."""

    url: str
    host: str
    """As the allow-list compares it."""
    port: int
    origin: str
    """scheme://host:port, for people: a path or query may hold a secret."""
    key: str
    """Of the rotation: the origin, or, where the target has more than one address there, the URL without its query."""


class Request(NamedTuple):
    """What to send, and where."""

    addresses: tuple[TargetAddress, ...]
    method: str
    headers: dict[str, str]
    body: bytes | None
    timeout_s: float
    """Of one request, from looking its host up to the end of its answer."""


def checked_request(
    url: str | list[str], method: str, headers: Mapping[str, str] | None, body: Any, timeout: float
) -> Request:
    """The arguments of `atf/http` as a request.

    Raises:
        InvalidArgument: one breaks its rule; the message names it.
    """
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise InvalidArgument(f"method {short(method)}: use one of {', '.join(METHODS)}")
    if not isinstance(timeout, int | float) or not 0 < timeout <= MAX_TIMEOUT_S:
        raise InvalidArgument(
            f"timeout {short(timeout)}: give seconds, more than 0 and at most {MAX_TIMEOUT_S:.0f} (a day)"
        )
    data, kind = _encoded(body)
    return Request(_addresses(url), method.upper(), _headers(headers or {}, kind), data, float(timeout))


def run_headers(ctx: Context) -> dict[str, str]:
    """What a target is told of the run: names that begin with ATF-, and the task's id as the key that drops repeats."""
    told = {
        IDEMPOTENCY_HEADER: ctx.task_id,
        "ATF-Task-Id": ctx.task_id,
        "ATF-Attempt": str(ctx.attempt),
        "ATF-Fence": str(ctx.fence),
        "ATF-Scheduled-At": ctx.scheduled_at.isoformat().replace("+00:00", "Z"),
    }
    if ctx.job:
        told["ATF-Job"] = quote(ctx.job, safe="/")  # a name may have letters that no header can hold
    if ctx.tick:
        told["ATF-Tick"] = str(ctx.tick)
    return told


def without_sent(text: str, request: Request) -> str:
    """A text of the target without what it echoes of the request: values of headers, paths, queries, and values of the body.

    Eight characters in a row that were sent are hidden: so a part of a value is, too, and one whose end was cut.
    """
    sent = "\n".join(_values_sent(request))
    ends = range(_SECRET_CHARS, len(text) + 1)
    found = {part for part in {text[end - _SECRET_CHARS : end] for end in ends} if part in sent}
    said, shown = [], 0
    """What is said so far, and up to where of the text."""
    for end in ends:
        if text[end - _SECRET_CHARS : end] in found:
            if end - _SECRET_CHARS >= shown:
                said += [text[shown : end - _SECRET_CHARS], HIDDEN]
            shown = end
    return "".join(said) + text[shown:]


def _values_sent(request: Request) -> Iterator[str]:
    yield from request.headers.values()
    for each in request.addresses:
        place = _URL.fullmatch(each.url)
        rest = place["rest"] if place else ""
        yield from (rest, unquote_plus(rest))
    text = (request.body or b"").decode("utf-8", "replace")
    try:
        yield from _leaves(msgspec.json.decode(text))
    except FAILS:
        yield from (text, unquote_plus(text))  # a form, perhaps


def _leaves(value: Any) -> Iterator[str]:
    """The values of a body in JSON, texts also as they stand in it. Names of fields are told: errors speak of them."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value
        if (escaped := msgspec.json.encode(value).decode()[1:-1]) != value:
            yield escaped
    else:
        yield str(value)


def _addresses(url: str | list[str]) -> tuple[TargetAddress, ...]:
    urls = [url] if isinstance(url, str) else url
    if not isinstance(urls, list | tuple) or not 1 <= len(urls) <= MAX_ADDRESSES:
        raise InvalidArgument(f"url: give one address, or a list of 1 to {MAX_ADDRESSES} of one target")
    found = [target_address(each) for each in urls]
    origins = Counter(each.origin for each in found)
    keyed = (each._replace(key=each.key if origins[each.origin] > 1 else each.origin) for each in found)
    return tuple({each.key: each for each in keyed}.values())


def target_address(url: str) -> TargetAddress:
    """Reads one address of a target; InvalidArgument says what is wrong with it, without repeating a password."""
    if not isinstance(url, str) or len(url) > MAX_URL_CHARS:
        raise InvalidArgument(f"url: an address is text of at most {MAX_URL_CHARS} characters")
    for at, character in enumerate(url, 1):
        if character in " \\" or not character.isprintable():
            raise InvalidArgument(f"url: character {at}, {character!r}, has no place in one; write it as %…")
    match = _URL.fullmatch(url)
    if match is None or match["scheme"].lower() not in DEFAULT_PORTS:
        raise InvalidArgument("url: it begins with http:// or https://")
    scheme, authority = match["scheme"].lower(), match["authority"]
    if "@" in authority:
        raise InvalidArgument("url: a user or password has no place in it; send an Authorization header")
    try:
        host, port = split_authority(authority)
    except InvalidArgument as error:
        raise InvalidArgument(f"url: {error}") from None
    port = port or DEFAULT_PORTS[scheme]
    sent = f"{scheme}://{authority}{match['rest'].partition('#')[0]}"
    return TargetAddress(sent, host, port, f"{scheme}://{host}:{port}", sent.partition("?")[0])


def _headers(given: Mapping[str, str], content_type: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in given.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidArgument(f"headers: {short(name)} is no header's name")
        if _REFUSED.fullmatch(name):
            raise InvalidArgument(f"headers: {name} can't be set: it follows from the request")
        if name.lower().startswith(_OURS):
            raise InvalidArgument(f"headers: {name} can't be set: names that begin with ATF- tell of the run")
        if name.lower() in seen:
            raise InvalidArgument(f"headers: {name} is given twice")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidArgument(f"headers: the value of {name} is not text of visible ASCII characters")
        seen.add(name.lower())
        headers[name] = value.strip()
    if content_type and "content-type" not in seen:
        headers["Content-Type"] = content_type
    return headers


def _encoded(body: Any) -> tuple[bytes | None, str]:
    if body is None:
        return None, ""
    try:
        if isinstance(body, str):
            return body.encode(), "text/plain; charset=utf-8"
        return msgspec.json.encode(body), "application/json"
    except FAILS as error:
        raise InvalidArgument(f"body: {reason(error)}") from None
