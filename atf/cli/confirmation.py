"""Asks before a command changes many things: --dry-run says what it would do, and without --yes it asks first.

One thing that is named is never asked about: whoever writes its id means it. Where nobody can be asked, such as in a script, the command
refuses and gives the line to write.
"""

from __future__ import annotations

import shlex
import sys
from typing import Final

import click

from atf.errors import InvalidArgument
from atf.visible import one_line

from .nouns import WORDS
from .options import kept

_LINE_CHARS: Final = 300
"""A command line that is longer is not repeated."""


def confirm(what: str, *, many: bool = True) -> None:
    """Asks whoever sits at the terminal whether to go on, unless the command was given --yes.

    Args:
        what: that would be done, as a question without its mark: "Cancel 3 tasks".
        many: whether it changes more than one thing; else nobody is asked.

    Raises:
        InvalidArgument: nobody sits there, or the answer was no.
    """
    require_terminal(many=many)
    if many and not kept("yes") and not click.confirm(f"{one_line(what)}?", err=True):
        raise InvalidArgument("nothing was changed")


def require_terminal(*, many: bool = True) -> None:
    """Refuses where nobody can be asked, and somebody will have to be: many things are to be changed, without --yes.

    Raises:
        InvalidArgument: with the lines to write.
    """
    if many and not (kept("yes") or has_terminal()):
        raise InvalidArgument(
            f"this changes more than one thing, and nobody is here to be asked: {_line('--dry-run')} says what it would do,"
            f" {_line('--yes')} does it"
        )


def has_terminal() -> bool:
    """Whether there is a terminal to ask at."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _line(flag: str) -> str:
    """The command line with one more flag."""
    context = click.get_current_context()
    words: list[str] = context.meta.get(WORDS, [])
    end = words.index("--") if "--" in words else len(words)
    line = shlex.join(["atf", *words[:end], flag, *words[end:]])
    return line if len(line) <= _LINE_CHARS else f"{context.command_path} … {flag}"
