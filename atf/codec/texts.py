"""Puts encrypted text where text is kept: errors, progress and logs."""

from __future__ import annotations

import re
from typing import Final

from atf.errors import NotDecrypted
from atf.sdk.failure import TRACEBACK, failure_of
from atf.sdk.sealed import SEALED_TEXT, WORD
from atf.task import MAX_ERROR_BYTES, clip

from .cipher import OVERHEAD, Cipher, bytes_of_text, text_of_bytes

_FRAME: Final = re.compile(r'[ |]*File ".*", line \d+, in .+')
_SOURCE: Final = re.compile(r"[ |]* {4}\S.*")
_LED: Final = re.compile(r"([ |]*(?:Caused by: |While handling: ))([^\W\d]\w*)(?::.*)?")
_ERROR_CHARS: Final = 2_000
_ROOM: Final = len("[encrypted:]")


def room_for(most_bytes: int) -> int:
    """How many bytes of text fit, encrypted, into so many."""
    return (most_bytes - _ROOM) * 3 // 4 - OVERHEAD - 2


def seal_text(cipher: Cipher, origin: str, text: str) -> str:
    """A text, encrypted."""
    return f"[encrypted:{text_of_bytes(cipher.seal(origin, text.encode('utf-8', 'surrogatepass')))}]" if text else ""


def open_text(cipher: Cipher, origin: str, text: str) -> str:
    """What an encrypted text says; a plain one as it is. What can't be decrypted says why."""
    found = SEALED_TEXT.search(text)
    if found is None:
        return text
    try:
        return cipher.open(origin, bytes_of_text(found[1])).decode("utf-8", "surrogatepass")
    except NotDecrypted as error:
        return SEALED_TEXT.sub(f"[encrypted: {error}]", text)


def seal_error(cipher: Cipher, origin: str, error: str) -> str:
    """A recorded error whose messages are encrypted: the types of exceptions, the places and the lines of source stay as they are."""
    if not error:
        return ""
    failed = failure_of(error)
    said = seal_text(cipher, origin, clip(error, _ERROR_CHARS))
    first = f"{failed.type}: {said}" if failed.type else said
    if not failed.traceback or not failed.type:  # what begins with no type was raised by nobody: the whole is a message
        return first
    lines, left = [TRACEBACK], MAX_ERROR_BYTES - len(first.encode()) - len(TRACEBACK) - 2
    for line in _plain_lines(failed.traceback):
        left -= len(line.encode()) + 1
        if left < 0:
            break
        lines.append(line)
    return "\n".join([first, *lines])


def _plain_lines(traceback: str) -> list[str]:
    """The lines of a traceback that hold no message."""
    plain: list[str] = []
    source = 0
    for line in traceback.split("\n")[1:]:
        if _FRAME.fullmatch(line):
            plain.append(line)
            source = 2  # the line of source, and what marks a part of it
        elif source and _SOURCE.fullmatch(line):
            plain.append(line)
            source -= 1
        else:
            source = 0
            if led := _LED.fullmatch(line):
                plain.append(f"{led[1]}{led[2]}: {WORD}")
    return plain
