"""Defines the durability classes: what must have happened to a task before its acceptance is answered. Values alone, no I/O."""

from __future__ import annotations

from typing import Final

from .errors import InvalidArgument
from .task import NamedNumber


class Durability(NamedNumber):
    """What outlives what; the numbers are those of the wire, and a larger one counts as the stronger."""

    RELAXED = 1
    """The server's memory has it: it outlives a crash of any process of ATF."""
    DISK = 2
    """The server's disk has it: it outlives a crash of the server and a loss of power."""
    REPLICATED = 3
    """A replica has it too: it outlives the loss of the server's machine."""

    @property
    def word(self) -> str:
        """As users write it."""
        return self.name.lower()


WORDS: Final = {each.word: each for each in Durability}


def durability_of(word: str, what: str = "durability") -> Durability:
    """The class that a word names.

    Raises:
        InvalidArgument: there is none of this name; `what` names the field or flag in the message.
    """
    found = WORDS.get(word) if isinstance(word, str) else None
    if found is None:
        raise InvalidArgument(f"{what} {str(word)[:80]!r}: use {', '.join(list(WORDS)[:-1])} or {list(WORDS)[-1]}")
    return found
