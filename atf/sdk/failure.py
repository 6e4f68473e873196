"""Makes the text that is kept of a failure: its headline first, then the traceback. Whoever shows only what went wrong takes it apart here.

ValueError: no such card            type and message; the message may have several lines
Traceback (most recent call last):  from here on the traceback, with causes, notes and members of groups
  File …
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .sealed import words

TRACEBACK: Final = "Traceback (most recent call last):"
"""The line where the traceback begins; a message has none such (see `headline`)."""
_BEGINS: Final = re.compile(rf"^{re.escape(TRACEBACK)}$", re.MULTILINE)
_LIKE_A_LINE_OF_IT: Final = re.compile(
    r'^([ |]*)(?=File ".*", line \d+, in |Caused by: |While handling: )', re.MULTILINE
)
_RAISED: Final = re.compile(r"([^\W\d]\w*)(?:: (.*))?", re.DOTALL)


class Failure(NamedTuple):
    """A failure by its parts."""

    type: str
    """The name of the exception's class; empty: no exception was raised, or the handler gave a sentence of its own (`atf.Retry`)."""
    message: str
    """What the exception said, or else what happened."""
    traceback: str

    @property
    def headline(self) -> str:
        """Type and message."""
        return f"{self.type}: {self.message}" if self.type and self.message else self.type or self.message


def failure_of(error: str) -> Failure:
    """The parts of a recorded error; of an empty one, empty ones."""
    begins = _BEGINS.search(error)
    if begins is None:
        return Failure("", error.strip(), "")
    said, traceback = error[: begins.start()].strip(), error[begins.start() :]
    raised = _RAISED.fullmatch(said)
    return Failure(raised[1], raised[2] or "", traceback) if raised else Failure("", said, traceback)


def headline(type_name: str, message: str) -> str:
    """Type and message as the beginning of an error's text."""
    return as_said(f"{type_name}: {message}" if message else type_name)


def as_said(text: str) -> str:
    """A message or a note none of whose lines can be taken for one of the traceback: of an encrypted error those stay plain."""
    return _LIKE_A_LINE_OF_IT.sub(r"\1> ", _BEGINS.sub(f"  {TRACEBACK}", text))


def summary_of(error: str, most_chars: int = 200) -> str:
    """A recorded error in tables, and where equal ones are counted together: the first line that says something."""
    said = failure_of(words(error)).headline
    first = said.partition("\n")[0].rstrip()
    return _in_one_line(said if first.endswith(":") else first, most_chars)  # a message may begin with an empty line


def sentence_of(error: str, most_chars: int = 200) -> str:
    """A recorded error in sentences and in logs: the whole message of an exception in one line; of other errors the first line."""
    failure = failure_of(words(error))
    return _in_one_line(failure.headline, most_chars) if failure.type else summary_of(error, most_chars)


def _in_one_line(text: str, most_chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most_chars else line[:most_chars] + "…"
