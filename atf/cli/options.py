"""Makes flags from settings classes, defines those that many commands share, and reads their texts. It does nothing with the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import datetime
from typing import Any, TypeVar

import click

from atf.config.loading import load
from atf.config.store_urls import has_password
from atf.errors import ConfigError, InvalidArgument
from atf.sdk.durations import FORMS, seconds_of
from atf.task import MAX_AHEAD_US, US

from .caller import NAMES as CALLER_FLAGS

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")


class _SettingOption(click.Option):
    """A flag of a setting, and what the settings of its class are about."""

    def __init__(self, *words: Any, section: str, **more: Any) -> None:
        super().__init__(*words, **more)
        self.section = section


class SettingsCommand(click.Command):
    """A command with so many settings that its help shows them under what they are about."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None and isinstance(each, click.Option):
                sections.setdefault(getattr(each, "section", "Options"), []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def settings_flags(*classes: type[Any], without: frozenset[str] = frozenset()) -> Callable[[F], F]:
    """Adds a flag for every field of settings classes, once per name; the command gets None where none was given.

    Values stay text here: `load` reads flags, variables and files by one rule, with one kind of error.
    """

    def add(command: F) -> F:
        named: dict[str, tuple[Field[Any], type[Any]]] = {}
        for cls in classes:
            for each in fields(cls):
                if each.name not in without:
                    named.setdefault(
                        each.name, (each, cls)
                    )  # of two settings with one name, the first class has the word
        for name, (each, cls) in reversed(named.items()):
            default = each.default if each.default is not MISSING else ""
            shown = str(default).lower() if isinstance(default, bool) else default
            text = f"{each.metadata['doc']}  [{f'default {shown}, ' if shown != '' else ''}ATF_{name.upper()}]"
            # --wakeups is --wakeups true
            alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if isinstance(default, bool) else {}
            if each.metadata["repeatable"]:
                alone = {"multiple": True, "callback": _joined}
            flag = f"--{name.replace('_', '-')}"
            section = (cls.__doc__ or "").partition(".")[0]
            more: dict[str, Any] = {
                "cls": _SettingOption,
                "section": section,
                "metavar": _metavar(default),
                "help": text,
            }
            command = click.option(flag, name, **more, **alone)(command)
        return command

    return add


def read(settings: type[S], flags: dict[str, Any], table: str = "") -> S:
    """One settings class from the flags that a command got, the environment and atf.toml.

    Raises:
        ConfigError: a value is malformed or breaks a rule.
    """
    names = {each.name for each in fields(settings)}  # type: ignore[arg-type]
    return load(settings, {name: value for name, value in flags.items() if name in names}, table=table)


def refuse_password(flags: Mapping[str, Any]) -> None:
    """Lets pass the flags of a process that goes on running.

    Raises:
        ConfigError: everybody on this machine could read the store's password among them.
    """
    if has_password(flags.get("redis_url") or ""):
        raise ConfigError(
            "--redis-url: every user of this machine can read the password in it, since flags stand in the list of processes. Set ATF_REDIS_URL, or"
            " name a file that holds the address: redis_url_file (ATF_REDIS_URL_FILE)"
        )


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


def option(flag: str, metavar: str, help: str, type: Any = None, *, name: str = "", **more: Any) -> Callable[[F], F]:
    """A flag that takes a value; `name`: that of the command's argument, if it is not the flag's."""
    words = [flag, name] if name else [flag]
    return click.option(*words, metavar=metavar, help=help, type=type, **more)


# --- flags of many commands -------------------------------------------------------------------------------------------


def kept_option(*words: str, **more: Any) -> Callable[[F], F]:
    """A flag that no command reads by itself: its value stays in the context, for what every command calls."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        context.meta[f"{__name__}.{parameter.name}"] = value

    return click.option(*words, expose_value=False, callback=keep, **more)


def kept(name: str) -> Any:
    """What the command that runs was given for one of these flags; None: nothing, or it has no such flag."""
    context = click.get_current_context(silent=True)
    return context and context.meta.get(f"{__name__}.{name}")


as_json = kept_option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
no_header = kept_option("--no-header", is_flag=True, help="Leave out the line that names the columns.")
_frontend = kept_option(
    "--frontend", metavar="HOST:PORT", help="The frontend to talk to.  [default 127.0.0.1:7401, ATF_FRONTEND]"
)
_dry_run = click.option("--dry-run", is_flag=True, help="Only say what it would do.")
_yes = kept_option("--yes", "-y", is_flag=True, help="Do it without asking first.")


def frontend_flag(command: F) -> F:
    """Adds --frontend, and what is shown to it."""
    for name in reversed(CALLER_FLAGS):
        command = kept_option(f"--{name.replace('_', '-')}", metavar="FILE", hidden=True)(command)
    return _frontend(command)


def wants_json() -> bool:
    """Whether the command that runs was given --json."""
    return bool(kept("as_json"))


def asks(command: F) -> F:
    """Adds the flags of a command that asks the frontend: --frontend and --json."""
    return frontend_flag(as_json(command))


def lists(command: F) -> F:
    """Adds the flags of one that prints what it found as a table, too: --frontend, --json and --no-header."""
    return frontend_flag(as_json(no_header(command)))


def bulk_flags(command: F) -> F:
    """Adds the flags of one that may change many things: --yes, and --dry-run as its argument `dry_run`. See confirmation.py."""
    return _dry_run(_yes(command))


why_flag = option("--why", "TEXT", "The reason, for the audit log.", default="")
lambda_argument = click.argument("lambda_name", metavar="LAMBDA")
any_lambda_argument = click.argument("lambda_name", metavar="[LAMBDA]", default="")
limit_flag = click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most this many.")


# --- texts ------------------------------------------------------------------------------------------------------------


def duration(text: str) -> float:
    """Seconds from the text of a flag, as options of the SDK take it."""
    seconds = seconds_of(text)
    if seconds is None:
        raise click.BadParameter(f"{text[:80]!r} is no duration: write seconds, or {FORMS}")
    if seconds * US > MAX_AHEAD_US:
        raise click.BadParameter(f"{text!r}: at most ten years")
    return seconds


def pairs(words: Sequence[str], flag: str) -> dict[str, str]:
    """NAME=VALUE of a flag that may be given again."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidArgument(f"{flag} {word!r}: write NAME=VALUE")
        if name in found:
            raise InvalidArgument(f"{flag} {name}: given twice")
        found[name] = value
    return found


def instant(text: str, flag: str) -> int:
    """Microseconds of an instant as people write it."""
    try:
        at = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{flag} {text!r}: write an instant such as 2030-01-31T08:00 or 2030-01-31T08:00:00Z"
        ) from None
    return max(1, round(at.timestamp() * US))
