"""Asks before a command changes many things: --dry-run says what it would do, and without --yes it asks first.

One thing that is named is never asked about: whoever writes its id means it. Where nobody can be asked, such as in a script, the command
refuses and gives the line to write.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from atf.errors import InvalidArgument

from .nouns import WORDS

F = TypeVar("F", bound=Callable[..., Any])

_LINE_CHARS: Final = 300
"""A command line that is longer is not repeated."""


def bulk_flags(command: F) -> F:
    """Adds --dry-run and --yes: the arguments `dry_run` and `yes` of the command."""
    command = click.option("--yes", "-y", is_flag=True, help="Do it without asking first.")(command)
    return click.option("--dry-run", is_flag=True, help="Only say what it would do.")(command)


def confirm(what: str, *, yes: bool) -> None:
    """Asks whoever sits at the terminal whether to go on.

    Args:
        what: that would be done, as a question without its mark: "Cancel 3 tasks".
        yes: the flag --yes: asks nobody.

    Raises:
        InvalidArgument: nobody sits there, or the answer was no.
    """
    if yes:
        return
    require_terminal()
    if not click.confirm(f"{what}?", err=True):
        raise InvalidArgument("nothing was changed")


def require_terminal() -> None:
    """Refuses where nobody can be asked.

    Raises:
        InvalidArgument: with the lines to write.
    """
    if not has_terminal():
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
