"""Writes a signature as the text that is registered: for people, and for commands that read arguments (atf/cli/arguments.py).

Whoever reads it does not have the code. So every name that only the code can explain is replaced by what travels in its place: an
alias by the type that it stands for, an enum by its values, a default that is no literal by `...`.
"""

from __future__ import annotations

import ast
import enum
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

ALIASES: Final = "  # aliases: "
"""Stands before the old names of parameters, as "old = present" with commas between them."""
_MAX_VALUES: Final = 16
"""An enum with more values than these is written as the types of its values."""
_MAX_DEFAULT_CHARS: Final = 60


class _Verbatim:
    """A text that inspect writes as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def signature_text(signature: inspect.Signature, hints: Mapping[str, Any], aliases: Mapping[str, str]) -> str:
    """A signature such as "(path: str, *, size: int = 256) -> dict".

    Args:
        signature: of what a caller gives.
        hints: the annotations by name, resolved; that of the result under "return".
        aliases: old name of a parameter -> present one.
    """
    shown = signature.replace(
        parameters=[_shown(each, hints) for each in signature.parameters.values()],
        return_annotation=_annotation(signature.return_annotation, hints, "return"),
    )
    old = ", ".join(f"{before} = {now}" for before, now in sorted(aliases.items()))
    return f"{shown}{ALIASES}{old}" if old else str(shown)


def _shown(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> inspect.Parameter:
    default = parameter.default
    return parameter.replace(
        annotation=_annotation(parameter.annotation, hints, parameter.name),
        default=default if default is parameter.empty else _Verbatim(_default_text(default)),
    )


def _annotation(given: Any, hints: Mapping[str, Any], name: str) -> Any:
    return given if given is inspect.Parameter.empty else _Verbatim(type_text(hints.get(name, given)))


def type_text(kind: Any) -> str:
    """A type as the text of an annotation."""
    if kind is None or kind is type(None):
        return "None"
    if kind is ...:
        return "..."
    for stands_for in ("__supertype__", "__value__"):  # of a NewType, and of `type X = …`
        if hasattr(kind, stands_for) and not isinstance(kind, enum.EnumMeta):
            return type_text(getattr(kind, stands_for))
    if isinstance(kind, enum.EnumMeta):
        return _enum_text(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return type_text(arguments[0])
    if origin in {typing.Union, types.UnionType}:
        return " | ".join(dict.fromkeys(map(type_text, arguments)))
    if origin is typing.Literal:
        return f"Literal[{', '.join(repr(each.value if isinstance(each, enum.Enum) else each) for each in arguments)}]"
    if isinstance(origin, type) and arguments and not any(isinstance(each, list) for each in arguments):
        return f"{inspect.formatannotation(origin)}[{', '.join(map(type_text, arguments))}]"
    return inspect.formatannotation(kind)


def _enum_text(kind: enum.EnumMeta) -> str:
    if issubclass(kind, enum.Flag):
        return "int"  # also for several of them at once
    values = [each.value for each in typing.cast("type[enum.Enum]", kind)]
    if values and len(values) <= _MAX_VALUES and all(isinstance(each, str | int) for each in values):
        return f"Literal[{', '.join(map(repr, values))}]"
    return " | ".join(sorted({type_text(type(each)) for each in values})) or "Any"


def _default_text(value: Any) -> str:
    text = repr(value.value if isinstance(value, enum.Enum) else value)
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "..."
    return text if len(text) <= _MAX_DEFAULT_CHARS else "..."
