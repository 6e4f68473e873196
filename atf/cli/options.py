"""Makes flags from settings classes, and defines those that many commands share. It reads values; it does nothing with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Final, TypeVar

import click

from atf.config.loading import load
from atf.errors import InvalidArgument
from atf.sdk.durations import FORMS, seconds_of
from atf.task import MAX_AHEAD_US, US

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")


def settings_flags(*classes: type[Any], without: frozenset[str] = frozenset()) -> Callable[[F], F]:
    """Adds a flag for every field of settings classes, once per name; the command gets None where none was given.

    Values stay text here: `load` reads flags, variables and files by one rule, with one kind of error.
    """

    def add(command: F) -> F:
        named: dict[str, Field[Any]] = {}
        for each in (each for cls in classes for each in fields(cls) if each.name not in without):
            named.setdefault(each.name, each)  # of two settings with one name, the first class has the word
        for name, each in reversed(named.items()):
            default = each.default if each.default is not MISSING else ""
            shown = str(default).lower() if isinstance(default, bool) else default
            text = f"{each.metadata['doc']}  [{f'default {shown}, ' if shown != '' else ''}ATF_{name.upper()}]"
            alone: dict[str, Any] = (
                {"is_flag": False, "flag_value": "true"} if isinstance(default, bool) else {}
            )  # --wakeups is --wakeups true
            if each.metadata["repeatable"]:
                alone = {"multiple": True, "callback": _joined}
            flag = f"--{name.replace('_', '-')}"
            command = click.option(flag, name, metavar=_metavar(default), help=text, **alone)(command)
        return command

    return add


def read(settings: type[S], flags: dict[str, Any], table: str = "") -> S:
    """One settings class from the flags that a command got, the environment and atf.toml.

    Raises:
        ConfigError: a value is malformed or breaks a rule.
    """
    names = {each.name for each in fields(settings)}  # type: ignore[arg-type]
    return load(settings, {name: value for name, value in flags.items() if name in names}, table=table)


def refuse_unused(flags: Mapping[str, Any], unused: Iterable[str], where: str) -> None:
    """Refuses flags that were given and that a command makes no use of. Variables and files are for many commands.

    Raises:
        InvalidArgument: names the first of them.
    """
    for name in unused:
        given = flags.get(name)
        if given is not None and given is not False and given != ():
            raise InvalidArgument(f"--{name.replace('_', '-')}: of no use {where}; leave it out")


def _joined(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    """A repeated flag as a variable or a file has it."""
    return ",".join(given) if given else None


def _metavar(default: object) -> str:
    if isinstance(default, bool):
        return "true|false"
    return {int: "N", float: "X"}.get(type(default), "TEXT")


def duration(text: str) -> float:
    """Seconds from the text of a flag, as options of the SDK take it."""
    seconds = seconds_of(text)
    if seconds is None:
        raise click.BadParameter(f"{text[:80]!r} is no duration: write seconds, or {FORMS}")
    if seconds * US > MAX_AHEAD_US:
        raise click.BadParameter(f"{text!r}: at most ten years")
    return seconds


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

_NO_HEADER: Final = "atf.no_header"


def _note_no_header(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    context.meta[_NO_HEADER] = given


no_header = click.option(
    "--no-header",
    is_flag=True,
    expose_value=False,
    callback=_note_no_header,
    help="Leave out the line that names the columns.",
)


def without_header() -> bool:
    """Whether the command that runs was given --no-header."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_NO_HEADER))


frontend_flag = click.option(
    "--frontend", metavar="HOST:PORT", help="The frontend to talk to.  [default 127.0.0.1:7401, ATF_FRONTEND]"
)

why_flag = click.option("--why", default="", metavar="TEXT", help="The reason, for the audit log.")
