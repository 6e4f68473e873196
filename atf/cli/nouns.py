"""Groups commands on one noun: `atf job` alone lists jobs, `atf jobs` means `atf job`, and a misspelt word gets the nearest one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

PLURALS: Final = {
    "batches": "batch",
    "gates": "gate",
    "hosts": "host",
    "jobs": "job",
    "keys": "key",
    "lambdas": "lambda",
    "queues": "queue",
}
"""What people also call a noun. The help does not list these."""
WORDS: Final = "atf.words"
"""Where a context keeps the words of the command line, behind `atf`."""
_LIST: Final = "ls"


class Noun(click.Group):
    """A group whose verb is `ls` where none is given: `atf lambda`, `atf lambda --json`, `atf lambda shop/mail`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it, with the verb that is left out put in."""
        return super().parse_args(ctx, self._with_verb(ctx, args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; an unknown verb is refused with the nearest one."""
        if args[0] not in self.commands:
            refuse_word(ctx, args[0], self.commands)
        return super().resolve_command(ctx, args)

    def _with_verb(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            return [_LIST]
        first = args[0]
        if first in {*self.commands, *ctx.help_option_names}:
            return args
        if first.startswith("-"):
            verb = next((each for each in args if each in self.commands), None)
            if verb is not None:
                raise click.UsageError(
                    f"{first} stands behind the command: {ctx.command_path} {verb} … {first} …", ctx=ctx
                )
            return [_LIST, *args]
        return [_LIST, *args] if "/" in first else args  # the name of a lambda or a job has one, a verb has none


def refuse_word(ctx: click.Context, word: str, known: Iterable[str]) -> None:
    """Refuses an unknown command.

    Raises:
        click.UsageError: names those that are nearest.
    """
    import difflib

    nearest = difflib.get_close_matches(word, [*known], n=2)
    hint = f". Did you mean {' or '.join(nearest)}?" if nearest else ""
    raise click.UsageError(f"No such command {word[:80]!r}{hint}", ctx=ctx)
