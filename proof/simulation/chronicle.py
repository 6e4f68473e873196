"""What is written down of one seed: events for the judge, faults and moves for the counts, and lines for the story."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from atf.verify.events import Event

from .loop import PROCESS, SimProcess

_ROOT: Final = f"{Path(__file__).parents[2]}/"


class StoryLine(NamedTuple):
    """One line of the story."""

    at_us: int
    process: str
    text: str
    tasks: tuple[str, ...]
    """The tasks it is about; none: it is about everything."""

    def told(self, wanted: Collection[str]) -> str:
        """The text, behind those of its tasks that are wanted and that it does not name itself."""
        names = [each for each in self.tasks if each in wanted and each not in self.text]
        return f"{' '.join(names)}: {self.text}" if names else self.text


class Chronicle:
    """The record of one seed.

    Attributes:
        events: for atf.verify.history.check.
        faults: how often each kind of fault was done to the world.
        calls: how often each call met each fate; see calls.WAYS.
        moves: how often each row of atf.task.MOVES was seen in the store.
        odd: moves that the table does not have, and whatever else a checker found as it happened.
        crashed: what was raised, and should not have been.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.now_us = now_us
        self.events: list[Event] = []
        self.faults: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.moves: Counter[str] = Counter()
        self.odd: list[str] = []
        self.crashed: list[str] = []
        self.lines: list[StoryLine] = []
        self._digest = hashlib.sha256()

    def event(self, event: Event) -> None:
        """Writes down what the judge has to know."""
        self.events.append(event)
        self._digest.update(repr(event).encode())

    def fault(self, kind: str, text: str = "", *tasks: str) -> None:
        """A fault has happened."""
        self.faults[kind] += 1
        self.say(f"** {kind} {text}".rstrip(), *tasks)

    def say(self, text: str, *tasks: str) -> None:
        """Adds a line to the story. Tracebacks in it name files from the project's folder on: a seed tells the same wherever that is."""
        owner = PROCESS.get()
        line = StoryLine(self.now_us(), owner.name if owner else "", text.replace(_ROOT, ""), tasks)
        self.lines.append(line)
        self._digest.update(repr(line).encode())

    @property
    def digest(self) -> str:
        """Stands for all that was written down: two runs of a seed have the same."""
        return self._digest.hexdigest()[:16]

    def story(self, *tasks: str) -> str:
        """The timeline of some tasks: what happened to them, and to everything."""
        wanted = set(tasks)
        told = [line for line in self.lines if not line.tasks or wanted.intersection(line.tasks)]
        return "\n".join(f"{each.at_us / 1e6:>11.6f}  {each.process:<18} {each.told(wanted)}" for each in told)


class Logs:
    """Takes the place of what formats log lines: warnings and errors of the roles become lines of the story.

    Args:
        chronicle: of the story.
        heard: is told of each line: whose it is, its event and its fields.
    """

    def __init__(self, chronicle: Chronicle, heard: Callable[[SimProcess, str, Mapping[str, Any]], None]) -> None:
        self._chronicle = chronicle
        self._heard = heard

    def debug(self, event: str, **fields: Any) -> None:
        """Not told."""

    def info(self, event: str, **fields: Any) -> None:
        """Not told."""
        if (process := PROCESS.get()) is not None:
            self._heard(process, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        Logs.info(self, event, **fields)
        told = " ".join(f"{name}={value}" for name, value in fields.items() if name != "duty")
        self._chronicle.say(f"{fields.get('duty', '')}: {event} {told}")

    error = warning

    def exception(self, event: str, **fields: Any) -> None:
        import sys

        self.warning(event, raised=repr(sys.exc_info()[1]), **fields)
