"""Words what is wrong with a schedule: a sentence, the text, and a caret below the place.

    schedule: the hour 24 is over 23; write 0 to 23
      0 30 24 * * *
           ^

Owns the form of that message; what is wrong is said by whoever parses.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from atf.errors import InvalidArgument

_SHOWN: Final = 72
"""Characters of a text that a message shows."""
_WORD: Final = 40
"""Characters of a word that a sentence quotes."""


@dataclass(frozen=True)
class GivenText:
    """A text as somebody gave it, under the name of its field."""

    field: str
    text: str

    def refuse(self, at: int, why: str, mend: str) -> InvalidArgument:
        """The error to raise.

        Args:
            at: where in the text it went wrong, in characters from its start; its end is one of these places.
            why: what is wrong there.
            mend: how to put it right.
        """
        if not self.text:
            return InvalidArgument(f"{self.field}: {why}; {mend}")
        start = max(0, min(at - _SHOWN // 2, len(self.text) - _SHOWN))
        shown = "".join(map(_cell, self.text[start : start + _SHOWN]))
        before, after = "…" * (start > 0), "…" * (start + _SHOWN < len(self.text))
        caret = " " * (at - start + len(before)) + "^"
        return InvalidArgument(f"{self.field}: {why}; {mend}\n  {before}{shown}{after}\n  {caret}")

    def checked(self, most: int) -> GivenText:
        """Itself, if it is neither empty nor longer than `most` characters.

        Raises:
            InvalidArgument: it is.
        """
        if not self.text:
            raise self.refuse(0, "it is empty", "leave it out, or give a value")
        if len(self.text) > most:
            raise self.refuse(most, f"it has {len(self.text)} characters", f"at most {most} are read")
        return self


def word(text: str) -> str:
    """A part of a text as a sentence quotes it."""
    return "".join(map(_cell, text[:_WORD])) + "…" * (len(text) > _WORD)


def _cell(character: str) -> str:
    """What stands for a character in just one cell of a terminal, so that the caret stays below its place."""
    if character.isascii():
        return character if character.isprintable() else " " if character.isspace() else "?"
    narrow = unicodedata.east_asian_width(character) not in "WF" and not unicodedata.combining(character)
    return character if narrow and character.isprintable() else "?"
