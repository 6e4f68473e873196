"""Unique keys: which tasks of a seed have one, and that no window of a key gives two tasks.

Judged is each call of the store's `schedule`, by a record of windows that is kept here, and what the caller is told in the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import atf
from atf.task import LIVE

POLICIES: Final = ("throttle", "debounce")
WINDOWS_S: Final = {"throttle": 25.0, "debounce": 6.0}
_THROTTLE: Final = "0"
_LIVE: Final = {status.name for status in LIVE}


class _Window(NamedTuple):
    """The window of a key that was opened last: its task, and until when by the store's clock."""

    task_id: str
    until_us: int
    since_us: int
    """When it was opened or moved, by the observer's clock."""


def option(chance: random.Random) -> atf.Unique:
    """The unique key of a task."""
    policy = chance.choice(POLICIES)
    return atf.Unique(f"one-{policy}", WINDOWS_S[policy], policy)


class Windows:
    """The windows of unique keys, as they must be.

    Attributes:
        made: the tasks of each key ("lambda:key") so far.
        due_us: of tasks that each call puts off: when, by the store's clock.
        found: how many calls were answered with the task of an open window.
    """

    def __init__(self) -> None:
        self.made: dict[str, set[str]] = {}
        self.due_us: dict[str, int] = {}
        self.found = 0
        self._open: dict[str, _Window] = {}
        self._answered: set[str] = set()

    def look(
        self,
        now_us: int,
        args: Sequence[Any],
        reply: Sequence[Any],
        field: Callable[[str, str], str | None],
        put_off: Callable[[str, int], None],
        at_us: int = 0,
        shown_us: Callable[[int], int] = lambda _since_us: 0,
    ) -> Iterator[str]:
        """What is wrong with a call of `schedule` that was executed at `now_us`.

        Args:
            now_us: of the store's clock.
            args: of the call.
            reply: to it.
            field: reads a field of a task's record.
            put_off: is told of a task that is due at another instant now, and when.
            at_us: of the observer's clock.
            shown_us: the latest instant that the store's clock has shown since one of the observer's: a window that was over by it may have
                been swept, although the clock has been set back since.
        """
        asked = zip(_tasks_of(args), reply, strict=True)
        for (task_id, unique), (what, at, stands_for) in asked:
            if not unique or task_id in self._answered:
                continue
            self._answered.add(task_id)
            key, span, policy = unique.split()
            window, waits = self._open.get(key), policy != _THROTTLE
            if what == 0:
                if (
                    window is not None
                    and shown_us(window.since_us) < window.until_us
                    and _holds(window, waits, now_us, field)
                ):
                    yield f"{task_id}: made within the window of {key} that {window.task_id} has"
                self.made.setdefault(key, set()).add(task_id)
                self._open[key] = _Window(task_id, int(at) if waits else now_us + int(span), at_us)
                self.due_us[task_id] = int(at)
            elif other := stands_for.decode():
                self.found += 1
                if _never_ran(other, field):
                    yield f"{task_id}: answered with {other}, which was cancelled and never ran"
                if window is None or other != window.task_id:
                    yield f"{task_id}: answered with {other}, and the window of {key} is {window}"
                elif waits:
                    self._open[key] = _Window(other, int(at), at_us)
                    self.due_us[other] = int(at)
                    put_off(other, int(at))

    def afresh(
        self,
        now_us: int,
        task_id: str,
        key: str,
        field: Callable[[str, str], str | None],
        shown_us: Callable[[int], int] = lambda _since_us: 0,
    ) -> Iterator[str]:
        """What is wrong with a task of the key that was started afresh at `now_us`: an open window becomes its own, where none has it that
        can still run. The arguments are those of `look`."""
        window = self._open.get(key)
        if window is None or window.until_us <= now_us or window.task_id == task_id:
            return
        swept = shown_us(window.since_us) >= window.until_us
        if not swept and field(window.task_id, "s") in _LIVE:
            yield f"{task_id}: started afresh within the window of {key} that {window.task_id} has"
        self._open[key] = window._replace(task_id=task_id)


def _tasks_of(args: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """The tasks of a call of `schedule`, and their unique keys with window and policy, "" of those that have none."""
    first = 1
    while first < len(args):
        task_id, *_, count = args[first : first + 7]
        more = args[first + 7 : first + 7 + int(count)]
        yield task_id, dict(zip(more[::2], more[1::2], strict=True)).get("uk", "")
        first += 7 + int(count)


def _holds(window: _Window, waits: bool, now_us: int, field: Callable[[str, str], str | None]) -> bool:
    """Whether a window gives no other task: it has not ended, and where calls put the task off, that still waits for its instant."""
    if window.until_us <= now_us or _never_ran(window.task_id, field):
        return False
    return not waits or (field(window.task_id, "s") == "NEW" and int(field(window.task_id, "at") or 0) > now_us)


def _never_ran(task_id: str, field: Callable[[str, str], str | None]) -> bool:
    """Whether a task was cancelled before its lambda was called: its unique key is free again."""
    runs = [line.split("\t") for line in (field(task_id, "R") or "").splitlines()]
    ran = field(task_id, "a") or field(task_id, "t4") or any(ran_us for _, _ended, ran_us, *_ in runs)
    return field(task_id, "s") == "CANCELLED" and not ran
