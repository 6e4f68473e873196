"""Makes the text that is kept of an exception, within a bound: its message, where it came from, its causes, notes and members.

Each exception is written as its message, then its traceback; what caused it follows. Where the bound is too small for all, frames go first, those in the
middle before those at both ends; then causes and members in the middle; then messages are cut. What was left out is said where it would stand.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import atf.builtin
from atf.sdk.failure import TRACEBACK, as_said, headline
from atf.task import MAX_ERROR_BYTES, clip

Redact = Callable[[str], str]
_T = TypeVar("_T")


class _Bounds(NamedTuple):
    """How much of each exception is written."""

    frames: int
    links: int  # exceptions of a chain of causes, and members of a group
    message_bytes: int


_FRAMES: Final = (50, 20, 12, 8, 5, 3, 2, 1)
_STEPS: Final = (
    *(_Bounds(frames, 16, MAX_ERROR_BYTES) for frames in _FRAMES),
    *(_Bounds(frames, 16, size) for size in (2 << 10, 1 << 10) for frames in _FRAMES),
    *(_Bounds(1, links, 1 << 10) for links in (8, 5, 3)),
    *(_Bounds(1, 3, size) for size in (512, 256, 128)),
    _Bounds(0, 3, 64),
)
"""From all to little: the first that fits is taken."""
_DEPTH: Final = 8
"""Of groups within groups."""
_MOST_READ: Final = 1_000
"""Exceptions of a chain, and members of a group."""
_READ_CHARS: Final = 64 << 10
"""Of a message before redacted values are taken out of it; far more than is kept."""
_OURS: Final = (str(Path(__file__).parent), str(Path(atf.builtin.__file__).parent))
_REPEATED: Final = re.compile(r"\s*\[Previous line repeated (\d+) more times?\]\s*")


class _Told(NamedTuple):
    """An exception as far as it is told, whole."""

    says: str
    frames: list[str]
    place: str
    """Of a SyntaxError: the line, and where in it."""
    notes: list[str]
    link: str
    """How it led to the one before it in the chain; empty: it is the first."""
    groups: list[list[_Told]]
    """The chains of its members."""


def text_of(error: BaseException, redact: Redact, most_bytes: int = MAX_ERROR_BYTES) -> str:
    """What is kept of an exception.

    Args:
        error: what was raised.
        redact: takes what nobody is to see out of a text; called before anything is cut.
        most_bytes: of the text, in UTF-8.
    """
    chain = _chain(error, redact, _DEPTH, set())
    texts = ("\n".join(_lines(chain, bounds, outermost=True)) for bounds in _STEPS)
    fits = (text for text in texts if len(text.encode("utf-8", "replace")) <= most_bytes)
    return clip(next(fits, chain[0].says), most_bytes)


def message_of(error: BaseException) -> str:
    """What an exception says of itself."""
    try:
        return _text_of(error)
    except Exception:  # noqa: BLE001  a __str__ of the user's, or more digits than Python prints
        return "(its message can't be shown)"


def _text_of(value: object) -> str:
    r"""As much of a value's text as is read; half a surrogate pair, as of a file's name, stands there as `\udcff`."""
    return str(value)[:_READ_CHARS].encode("utf-8", "backslashreplace").decode()


# --- reading ----------------------------------------------------------------------------------------------------------


def _chain(error: BaseException, redact: Redact, depth: int, seen: set[int]) -> list[_Told]:
    """An exception, and what led to it, back to the first or to one that was `seen`."""
    found: list[_Told] = []
    each: BaseException | None = error
    link = ""
    while each is not None and id(each) not in seen and len(found) < _MOST_READ:
        seen.add(id(each))
        found.append(_told(each, link, redact, depth, seen))
        if each.__cause__ is not None:
            each, link = each.__cause__, "Caused by: "
        elif not each.__suppress_context__:
            each, link = each.__context__, "While handling: "
        else:
            each = None
    return found


def _told(error: BaseException, link: str, redact: Redact, depth: int, seen: set[int]) -> _Told:
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return _Told(
        says=headline(type(error).__name__, redact(message_of(error))),
        frames=[redact(each) for each in _frames(error)],
        place=redact(_place(error)),
        notes=[as_said(redact(each)) for each in _notes(error)],
        link=link,
        groups=[_chain(each, redact, depth - 1, seen) for each in members[:_MOST_READ]] if depth else [],
    )


def _frames(error: BaseException) -> list[str]:
    """The frames of the traceback without our own; those of a recursion are counted, not repeated."""
    try:
        stack = traceback.extract_tb(error.__traceback__)
        return traceback.StackSummary.from_list(
            [each for each in stack if not each.filename.startswith(_OURS)]
        ).format()
    except Exception:  # noqa: BLE001  a source file that is no text any more
        return []


def _place(error: BaseException) -> str:
    if not isinstance(error, SyntaxError):
        return ""
    try:
        *lines, _ = traceback.TracebackException(type(error), error, None, compact=True).format_exception_only()
        return "".join(lines[: len(lines) - len(_notes(error))])
    except Exception:  # noqa: BLE001  its attributes may hold anything
        return ""


def _notes(error: BaseException) -> list[str]:
    notes = getattr(error, "__notes__", None)
    try:
        return [_text_of(each) for each in notes] if isinstance(notes, list | tuple) else []
    except Exception:  # noqa: BLE001  as for messages
        return []


# --- writing ----------------------------------------------------------------------------------------------------------


def _lines(chain: Sequence[_Told], bounds: _Bounds, *, outermost: bool = False) -> Iterator[str]:
    for each in _ends(chain, bounds.links):
        if isinstance(each, int):
            yield f"… {_count(each, 'cause')} left out …"
            continue
        yield each.link + _cut(each.says, bounds.message_bytes)
        more = bool(each.notes or each.place or each.groups or len(chain) > 1)
        if each.frames or (outermost and more):
            yield TRACEBACK
        outermost = False
        yield from _frame_lines(each.frames, bounds.frames)
        if each.place:
            yield each.place.rstrip()
        for note in _ends(each.notes, bounds.links):
            if isinstance(note, int):
                yield f"… {_count(note, 'note')} left out …"
            else:
                yield f"Note: {_cut(note, bounds.message_bytes)}"
        yield from _group_lines(each.groups, bounds)


def _frame_lines(frames: Sequence[str], most: int) -> Iterator[str]:
    if len(frames) <= most:
        yield from (each.rstrip() for each in frames)
        return
    first = most // 2
    left_out = frames[first : len(frames) - (most - first)]
    yield from (each.rstrip() for each in frames[:first])
    yield f"  … {_count(sum(map(_counted, left_out)), 'frame')} left out …"
    yield from (each.rstrip() for each in frames[len(frames) - (most - first) :])


def _counted(frame: str) -> int:
    repeated = _REPEATED.fullmatch(frame)
    return int(repeated[1]) if repeated else 1


def _group_lines(groups: Sequence[Sequence[_Told]], bounds: _Bounds) -> Iterator[str]:
    number = 0
    for member in _ends(groups, bounds.links):
        if isinstance(member, int):
            number += member
            yield f"  +---- {_count(member, 'member')} left out"
            continue
        number += 1
        if not member:
            yield f"  +---- {number} of {len(groups)}: told already"
            continue
        yield f"  +---- {number} of {len(groups)}"
        for line in "\n".join(_lines(member, bounds)).split("\n"):
            yield f"  | {line}"


def _ends(items: Sequence[_T], most: int) -> Iterable[_T | int]:
    """All items; where there are more than `most`, the first and the last ones, and between them how many are missing."""
    if len(items) <= most:
        return items
    first = (most + 1) // 2
    last = most - first
    return [*items[:first], len(items) - most, *items[len(items) - last :]]


def _cut(message: str, most_bytes: int) -> str:
    kept = clip(message, most_bytes)
    return message if len(kept) == len(message) else f"{kept} … (cut)"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
