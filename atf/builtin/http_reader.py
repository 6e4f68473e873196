"""Reads answers as curl and urllib read them, and writes each again as strict parsers take it. Pure.

A target that has acted and answered is called again if its answer is refused. So this module refuses only what has no status line, or
a body of which a part is missing:

- headers may take 256 KiB; what is no header is passed over, and of a header given twice the first one counts
- lines may end with LF alone; a line that begins with a blank goes on with the line before
- interim answers (1xx) are dropped
- what follows the end of an answer is dropped, and the connection is not used again

Of the headers those remain that http_answer.py looks at.
"""

from __future__ import annotations

import re
from typing import Final

MAX_HEAD_BYTES: Final = 256 << 10
_MAX_LINE_BYTES: Final = 64 << 10
"""Of the line in front of a chunk, and of all trailers."""
_MAX_VALUE_BYTES: Final = 4_096
"""Of a header that remains; what is longer is cut."""
_REMAIN: Final = (b"content-type", b"retry-after", b"date", b"location")
_STATUS: Final = re.compile(rb"HTTP/(\d+(?:\.\d+)?)[ \t]+([1-9]\d{2})(?:[ \t].*)?", re.IGNORECASE | re.DOTALL)
_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
_CONTROLS: Final = re.compile(rb"[\x00-\x1f\x7f]+")
_CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,15}")
_LENGTH: Final = re.compile(rb"\+?[0-9]{1,18}")
_NO_BODY: Final = frozenset({101, 204, 304})
_LAST_CHUNK: Final = b"0\r\n\r\n"

# What is read next.
_HEAD, _LENGTH_LEFT, _SIZE, _CHUNK, _CHUNK_END, _TRAILERS, _TO_THE_END, _NOTHING = range(8)


class NotHttp(Exception):
    """It can't be read; the message says why, such as "its first line is 'SSH-2.0', which is no status line"."""


class AnswerReader:
    """The answer to one request.

    Args:
        body: whether it may have one; that to a HEAD has none.

    Attributes:
        surplus: whether more came than the answer.
    """

    def __init__(self, *, body: bool) -> None:
        self.surplus = False
        self._may_have_body = body
        self._buffer = bytearray()
        self._next = _HEAD
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        """Takes what came, and gives what a strict parser shall have.

        Raises:
            NotHttp: it is no answer.
        """
        self._buffer += data
        given = bytearray()
        if self._next == _HEAD:
            given += self._read_head()
        if self._next != _HEAD:
            while (some := self._read_body()) is not None:
                given += some
        if self._next == _NOTHING and self._buffer:
            self.surplus = True
            self._buffer.clear()
        return bytes(given)

    def end(self) -> bytes:
        """What a strict parser shall have at the connection's end.

        Raises:
            NotHttp: it is no answer.
        """
        if self._next == _HEAD and self._buffer:
            if b"\n" not in self._buffer.lstrip(b"\r\n"):
                raise NotHttp(f"it ends within its first line, {_shown(self._buffer)}")
            # What it began to say after its status line is missing, and it has answered.
            return self.feed(b"\n" if self._buffer.endswith(b"\n") else b"\n\n")
        if self._next == _TRAILERS:
            self._next = _NOTHING
            return _LAST_CHUNK
        return b""

    def _read_head(self) -> bytes:
        while True:
            del self._buffer[: len(self._buffer) - len(self._buffer.lstrip(b"\r\n"))]
            first, ended, _ = bytes(self._buffer[:MAX_HEAD_BYTES]).partition(b"\n")
            match = _STATUS.fullmatch(first.rstrip(b"\r"))
            if ended and match is None:
                raise NotHttp(f"its first line is {_shown(first)}, which is no status line")
            blank = _BLANK_LINE.search(self._buffer)
            if match is None or blank is None:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    raise NotHttp(f"its headers take more than {MAX_HEAD_BYTES >> 10} KiB")
                return b""
            lines = re.split(rb"\r?\n", bytes(self._buffer[: blank.start()]))[1:]
            del self._buffer[: blank.end()]
            status = int(match[2])
            if status >= 200 or status == 101:
                return self._begin(match[1], status, _headers(lines))

    def _begin(self, version: bytes, status: int, headers: dict[bytes, list[bytes]]) -> bytes:
        """Decides how the body is told from what follows, and writes the head again."""
        codings = _words(headers, b"transfer-encoding")
        lengths = [each for value in headers.get(b"content-length", []) for each in value.split(b",")]
        length = lengths[0].strip() if lengths else b""
        written = [b"HTTP/1.1 %d " % status]
        if not self._may_have_body or status in _NO_BODY:
            self._next = _NOTHING
            written += [b"Content-Length: 0"] if status not in _NO_BODY else []
        elif codings[-1:] == [b"chunked"]:
            self._next = _SIZE
            written.append(b"Transfer-Encoding: chunked")
        elif _LENGTH.fullmatch(length):
            self._left = int(length)
            self._next = _LENGTH_LEFT if self._left else _NOTHING
            written.append(b"Content-Length: %d" % self._left)
        else:
            self._next = _TO_THE_END
        unclear = len({each.strip() for each in lengths}) > 1 or (codings and lengths) or self._next == _TO_THE_END
        connection = _words(headers, b"connection")
        if unclear or b"close" in connection or (version in {b"1.0", b"0.9"} and b"keep-alive" not in connection):
            written.append(b"Connection: close")
        written += [b"%s: %s" % (name, _cleaned(headers[name][0])) for name in _REMAIN if name in headers]
        return b"\r\n".join(written) + b"\r\n\r\n"

    def _read_body(self) -> bytes | None:
        """The next piece of the body; None: for that more must come."""
        if self._next == _NOTHING or not self._buffer:
            return None
        if self._next == _TO_THE_END:
            return self._taken(len(self._buffer))
        if self._next == _LENGTH_LEFT:
            some = self._taken(self._left)
            self._left -= len(some)
            self._next = _LENGTH_LEFT if self._left else _NOTHING
            return some
        if self._next == _CHUNK:
            some = self._taken(self._left)
            self._left -= len(some)
            self._next = _CHUNK if self._left else _CHUNK_END
            return b"%x\r\n%s\r\n" % (len(some), some)
        line = self._line()
        return None if line is None else self._after(line)

    def _after(self, line: bytes) -> bytes:
        """What a line between chunks, or behind them, gives."""
        if self._next == _CHUNK_END:
            if line:
                raise NotHttp("a chunk of its body is longer than it says")
            self._next = _SIZE
        elif self._next == _SIZE:
            size = line.partition(b";")[0].strip()
            if not _CHUNK_SIZE.fullmatch(size):
                raise NotHttp(f"a chunk of its body has the size {size[:40].decode('latin-1')!r}")
            self._left = int(size, 16)
            self._next = _CHUNK if self._left else _TRAILERS
        elif not line:
            self._next = _NOTHING
            return _LAST_CHUNK
        return b""

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > _MAX_LINE_BYTES:
                raise NotHttp(f"a line between the chunks of its body takes more than {_MAX_LINE_BYTES >> 10} KiB")
            return None
        return self._taken(end + 1).rstrip(b"\r\n")

    def _taken(self, count: int) -> bytes:
        some = bytes(self._buffer[:count])
        del self._buffer[:count]
        return some


def _shown(line: bytes | bytearray) -> str:
    return repr(line[:80].decode("latin-1").strip())


def _headers(lines: list[bytes]) -> dict[bytes, list[bytes]]:
    """The values by name, in small letters."""
    whole: list[bytes] = []
    for line in lines:
        if line[:1] in {b" ", b"\t"}:
            if whole:
                whole[-1] += b" " + line.strip()
        else:
            whole.append(line)
    found: dict[bytes, list[bytes]] = {}
    for line in whole:
        name, colon, value = line.partition(b":")
        if colon:
            found.setdefault(name.strip().lower(), []).append(value.strip())
    return found


def _words(headers: dict[bytes, list[bytes]], name: bytes) -> list[bytes]:
    return [word for value in headers.get(name, []) for each in value.split(b",") if (word := each.strip().lower())]


def _cleaned(value: bytes) -> bytes:
    """A value without control characters, in UTF-8."""
    value = _CONTROLS.sub(b" ", value[:_MAX_VALUE_BYTES])
    try:
        return value.decode().encode()
    except UnicodeDecodeError:
        return value.decode("latin-1").encode()
