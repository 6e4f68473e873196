"""Defines what an action is: its form, the command that does the same, and the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from atf.errors import InvalidArgument
from atf.rpc import api
from atf.sdk.durations import FORMS, seconds_of
from atf.task import US
from atf.ui.labels import label_words

MAX_VALUE_CHARS: Final = 2_000
"""Of what somebody writes into a field."""

Values = Mapping[str, str]
"""What a form says, by the names of its fields."""
Do = Callable[[api.Frontend, Values, str], Awaitable[str]]
"""Carries an action out in somebody's name, and answers with a sentence."""


class FormField(NamedTuple):
    """A field of a form."""

    name: str
    label: str
    flag: str = ""
    """Of the command; empty: its value stands as a word of its own where the command has {name}."""
    hint: str = ""
    required: bool = False
    kind: str = "text"
    """text; check: a flag without a value; labels: several NAME=VALUE with spaces or commas between, each with the flag."""


WHY: Final = FormField("why", "Why", "--why", "for the audit log")


@dataclass(frozen=True)
class Action:
    """Something that people may do."""

    name: str
    """In the URL."""
    label: str
    """Of its button."""
    says: str
    """What it will do, in a sentence; {name} is a value of its target."""
    target: tuple[str, ...]
    """Names of the values that say to what it is done."""
    command: tuple[str, ...] | Callable[[Values], list[str]]
    """Words of the command; {name} is a value of the target or of a field without a flag. Or what makes them from the target."""
    do: Do
    fields: tuple[FormField, ...] = (WHY,)
    tone: str = ""
    """danger: what is lost does not come back."""


class CommandWord(NamedTuple):
    """A word of a command line as a form shows it: fixed, or filled in by a field."""

    text: str
    field: str = ""
    flag: str = ""
    kind: str = ""


def command_template(action: Action, target: Values) -> list[CommandWord]:
    """The command as the form shows it before anything is written."""
    by_name = {each.name: each for each in action.fields}
    found = []
    for word, name in _fixed_words(action, target):
        if name in by_name:
            found.append(CommandWord(by_name[name].label.upper(), name))
        else:
            found.append(CommandWord(target[name] if name else word))
    found += [CommandWord("", each.name, each.flag, each.kind) for each in action.fields if each.flag]
    return found


def _fixed_words(action: Action, target: Values) -> list[tuple[str, str]]:
    """The words before the flags, each with the name of the value that stands for it, or none."""
    if not isinstance(action.command, tuple):
        return [(word, "") for word in action.command(target)]
    return [(word, word[1:-1] if word.startswith("{") else "") for word in action.command]


def command_words(action: Action, values: Values) -> list[str]:
    """The command that does the same as a form that was sent."""
    words = [values.get(name, "") if name else word for word, name in _fixed_words(action, values)]
    for each in action.fields:
        value = values.get(each.name, "")
        if not each.flag or not value:
            continue
        if each.kind == "check":
            words.append(each.flag)
        elif each.kind == "labels":
            words += [part for label in label_words(value) for part in (each.flag, label)]
        else:
            words += [each.flag, value]
    return words


def read_values(action: Action, form: Mapping[str, object]) -> dict[str, str]:
    """What a form says.

    Raises:
        InvalidArgument: a value is missing, or too long.
    """
    found: dict[str, str] = {}
    for name in (*action.target, *(each.name for each in action.fields)):
        given = form.get(name, "")
        value = given.strip() if isinstance(given, str) and name not in action.target else given
        if not isinstance(value, str) or len(value) > MAX_VALUE_CHARS:
            raise InvalidArgument(f"{name}: write a text of at most {MAX_VALUE_CHARS} characters")
        found[name] = value
    missing = [each.label for each in action.fields if each.required and not found[each.name]]
    if missing:
        raise InvalidArgument(f"{', '.join(missing)}: nothing is written there")
    return found


def said(values: Values, who: str) -> dict[str, Any]:
    """Who does it and why, for the audit log."""
    return {"who": who, "why": values["why"]}


# --- what is written into fields --------------------------------------------------------------------------------------


def duration_us(text: str, label: str) -> int:
    """Microseconds of a duration.

    Raises:
        InvalidArgument: it is none.
    """
    seconds = seconds_of(text)
    if seconds is None:
        raise InvalidArgument(f"{label} {text[:80]!r} is no duration: write seconds, or {FORMS}")
    return round(seconds * US)


def number_of(text: str, label: str) -> float:
    """A number.

    Raises:
        InvalidArgument: it is none.
    """
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        raise InvalidArgument(f"{label} {text[:80]!r} is no number") from None
