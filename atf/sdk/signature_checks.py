"""What a signature may look like, and how a value that does not fit it is told."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from atf.errors import InvalidArgument

from .arrivals import NOWHERE
from .payload import short

_CONTEXT_BY_NAME: Final = re.compile(r"(\w+\.)*Context")

_PLACE: Final = re.compile(r"(?P<why>.*) - at `\$\.(?P<name>\w+)(?P<rest>.*)`", re.DOTALL)


def is_context(first: inspect.Parameter, hints: Mapping[str, Any] | None, context: type) -> bool:
    """Whether the first parameter of a function is its context."""
    if hints is not None:
        return hints.get(first.name) is context
    # Some other annotation can't be resolved yet; this one is a string that names the class.
    return isinstance(first.annotation, str) and _CONTEXT_BY_NAME.fullmatch(first.annotation) is not None


def check_context(name: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any], context: type) -> None:
    """Sees that no other parameter is one.

    Raises:
        TypeError: one is, or holds one.
    """
    for each in parameters:
        if hints.get(each.name) is context:
            raise TypeError(f"lambda {name}: the context must be the first parameter; {each.name!r} is not")
        if context in get_args(hints.get(each.name)):
            raise TypeError(
                f"lambda {name}: annotate the context {each.name!r} as atf.Context alone; a run always has one"
            )


def checked_aliases(name: str, given: object, parameters: list[str]) -> dict[str, str]:
    """Old names of parameters to present ones, as given.

    Raises:
        InvalidArgument: they are not names, or name no parameter.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for pair in given.items() for each in pair):
        raise InvalidArgument(
            f"lambda {name}: aliases {short(given)}: give old names and the present ones, such as {{'color': 'colour'}}"
        )
    for old, now in given.items():
        if now not in parameters:
            has = f"it has {', '.join(parameters)}" if parameters else "it has none"
            raise InvalidArgument(
                f"lambda {name}: alias {old!r}: there is no parameter {now!r}; {has}. Write the old name first, the present one behind it"
            )
        if old in parameters:
            raise InvalidArgument(
                f"lambda {name}: alias {old!r} is the name of a parameter. An alias is a name that a parameter had before"
            )
    return dict(given)


def changed(place: str, given: object, arrived: object) -> str:
    """What a value became on the way, as the end of a message."""
    at = f" at {place}" if place else ""
    if arrived is NOWHERE:
        return f"{at}: {short(given)} would not arrive: the annotation has no such key"
    if type(given) is type(arrived):
        another = short(arrived) if short(given) != short(arrived) else "another one, though both are written alike"
        return f"{at}: {short(given)} would arrive as {another}"
    kinds = [type(each).__name__ for each in (given, arrived)]
    return (
        f"{at}: {short(given)}, of type {kinds[0]}, would arrive as {short(arrived)}, of type {kinds[1]}. Annotate the parameter as what you"
        " give, or give what its annotation says"
    )


def with_value(said: str, given: Mapping[str, Any]) -> str:
    """A sentence on an argument, with its value if it does not say what was wrong with it: `Invalid RFC3339 encoded date`."""
    for name, value in given.items():
        if said.startswith(f"argument {name!r}: Invalid ") and short(value) not in said:
            return f"{said}, got {short(value)}"
    return said


def place_of(message: str) -> str:
    """A message of msgspec's with the argument's name in front: "argument 'size': Expected `int`, got `str`"."""
    match = _PLACE.fullmatch(message)
    if match is None:
        return message
    rest = f" at {match['rest']}" if match["rest"] else ""
    return f"argument {match['name']!r}{rest}: {match['why']}"
