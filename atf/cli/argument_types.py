"""Knows what an argument takes, from the text of its annotation, and reads texts as such values."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from atf.errors import InvalidArgument
from atf.sdk.payload import short

from .json_values import json_value

_TEXT: Final = "text"
_LIST: Final = "list"
_OBJECT: Final = "object"
_KINDS: Final = {
    "str": _TEXT, "bytes": _TEXT, "bytearray": _TEXT, "datetime": _TEXT, "date": _TEXT, "time": _TEXT, "timedelta": _TEXT, "UUID": _TEXT,
    "Decimal": _TEXT, "Path": _TEXT, "PurePath": _TEXT, "PosixPath": _TEXT, "LiteralString": _TEXT,
    "bool": "bool", "int": "int", "float": "float", "None": "None", "NoneType": "None",
    "list": _LIST, "List": _LIST, "tuple": _LIST, "Tuple": _LIST, "set": _LIST, "Set": _LIST, "frozenset": _LIST, "FrozenSet": _LIST,
    "Sequence": _LIST, "MutableSequence": _LIST, "Collection": _LIST, "Iterable": _LIST, "AbstractSet": _LIST, "MutableSet": _LIST,
    "dict": _OBJECT, "Dict": _OBJECT, "Mapping": _OBJECT, "MutableMapping": _OBJECT,
}  # fmt: skip
"""By the last word of an annotation, what JSON has for it. A date travels as text; so does a Decimal, which a JSON number would round."""
_FORMS: Final[Mapping[str, type]] = {
    "bytes": bytes, "bytearray": bytearray, "datetime": datetime, "date": date, "time": time, "timedelta": timedelta, "UUID": UUID,
    "Decimal": Decimal,
}  # fmt: skip
"""Those of them whose texts are of one form."""
_SUCH_AS: Final[Mapping[type, str]] = {
    bytes: "base64, such as YWJj",
    bytearray: "base64, such as YWJj",
    datetime: "an instant, such as 2030-01-31T08:00:00Z",
    date: "a date, such as 2030-01-31",
    time: "a time, such as 08:00:00",
    timedelta: "a duration, such as PT90S or P1D",
    UUID: "a UUID",
    Decimal: "a number",
}
_MEND: Final = {
    "bool": "write true or false",
    "int": "write a whole number",
    "float": "write a number",
    _LIST: 'write a JSON list, such as ["a", "b"]',
    _OBJECT: 'write a JSON object, such as {"a": 1}',
    "None": "write null",
}


class ArgumentFault(NamedTuple):
    """A value that is not taken."""

    place: str
    """Within the argument, such as "[2]"; empty: the argument itself."""
    value: Any
    takes: ArgumentType
    """What would be taken there."""


@dataclass
class ArgumentType:
    """What one parameter takes, or what is within it."""

    annotation: str
    kinds: set[str] = field(default_factory=set)
    """Of text, bool, int, float, None, list and object."""
    values: list[Any] = field(default_factory=list)
    """Beside these kinds, values that are taken."""
    forms: set[type] | None = field(default_factory=set)
    """What a text must be of, one of them; None: any text is taken."""
    inner: dict[str, ArgumentType | None] = field(default_factory=dict)
    """What elements of a list and values of an object are, by these kinds; None: nobody knows."""

    def read(self, name: str, text: str) -> Any:
        """A text as a value of the parameter `name`.

        Raises:
            InvalidArgument: it takes no such value.
        """
        is_taken = self.fault(text) is None
        if is_taken and not (self.kinds & {_LIST, _OBJECT} and text.lstrip()[:1] in {"[", "{"}):
            return text
        found = _json_or(text)
        fault = self.fault(found)
        if fault is None:
            return found
        if is_taken:
            return text
        if not fault.place:
            fault = fault._replace(value=text)  # as it was written
        raise InvalidArgument(f"argument {name!r}{said_of(fault)}")

    def fault(self, value: Any, place: str = "") -> ArgumentFault | None:
        """The first thing that is not taken, of a value as JSON has it; None: it is taken."""
        if any(value == each and type(value) is type(each) for each in self.values):
            return None
        kinds = _kind(value) & self.kinds
        if not kinds or (isinstance(value, str) and not self._reads(value)):
            return ArgumentFault(place, value, self)
        within: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, list | dict):
            within = value.items() if isinstance(value, dict) else enumerate(value)
        takes = self.inner.get(next(iter(kinds)))
        if takes is None:
            return None
        return next((found for key, each in within if (found := takes.fault(each, f"{place}[{key!r}]"))), None)

    def _reads(self, text: str) -> bool:
        return self.forms is None or any(_is_form(text, form) for form in self.forms)

    def mend(self, value: Any) -> str:
        """How to write what is taken."""
        if self.forms is None and isinstance(value, int | float) and not isinstance(value, bool):
            return f"; write {json.dumps(str(value))}"
        ways = [_MEND[each] for each in ("bool", "float", "int", _LIST, _OBJECT) if each in self.kinds]
        ways = [*(f"write {_SUCH_AS[each]}" for each in self.forms or ()), *ways]
        return f"; {ways[0]}" if ways else "; write null" if self.kinds == {"None"} else ""


def said_of(fault: ArgumentFault) -> str:
    """What was wrong, as the end of a sentence that names the argument."""
    at = f" at {fault.place}" if fault.place else ""
    return f"{at}: expected {fault.takes.annotation}, got {short(fault.value)}{fault.takes.mend(fault.value)}"


def _is_form(text: str, form: type) -> bool:
    try:
        msgspec.convert(text, form)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def argument_type_of(annotation: ast.expr | None) -> ArgumentType | None:
    """What an annotation takes; None: nobody can say."""
    if annotation is None:
        return None
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):  # one that was not resolved
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    takes = ArgumentType(ast.unparse(annotation))
    return takes if _gather(annotation, takes) else None


def _gather(node: ast.expr, takes: ArgumentType) -> bool:
    """Adds what an annotation takes; False: a part of it is not understood."""
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _gather(left, takes) and _gather(right, takes)
        case ast.Constant(value=None):
            takes.kinds.add("None")
            return True
        case ast.Name() | ast.Attribute():
            return _gather_name(_last_word(node), takes)
        case ast.Subscript(value=of, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            match _last_word(of):
                case "Annotated":
                    return bool(parts) and _gather(parts[0], takes)
                case "Optional":
                    takes.kinds.add("None")
                    return _gather(inner, takes)
                case "Union":
                    return all(_gather(each, takes) for each in parts)
                case "Literal":
                    return _literals(parts, takes.values)
            return _gather(of, takes) and _gather_inner(_last_word(of), parts, takes)
    return False


def _gather_name(word: str, takes: ArgumentType) -> bool:
    kind = _KINDS.get(word)
    if kind is None:
        return False
    takes.kinds.add(kind)
    if kind in {_LIST, _OBJECT}:
        takes.inner[kind] = None
    elif kind == _TEXT and word not in _FORMS:
        takes.forms = None
    elif kind == _TEXT and takes.forms is not None:
        takes.forms.add(_FORMS[word])
    if word == "Decimal":  # a number of JSON is one, too
        takes.kinds |= {"int", "float"}
    return True


def _gather_inner(word: str, parts: list[ast.expr], takes: ArgumentType) -> bool:
    """Adds what is within a list or an object, where all of it is alike."""
    kind = _KINDS[word]
    if kind == _LIST and word.lower() == "tuple":
        alike = len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is ...
        takes.inner[kind] = argument_type_of(parts[0]) if alike else None
    elif kind == _LIST and len(parts) == 1:
        takes.inner[kind] = argument_type_of(parts[0])
    elif kind == _OBJECT and len(parts) == 2:
        takes.inner[kind] = argument_type_of(parts[1])
    return True


def _literals(parts: list[ast.expr], values: list[Any]) -> bool:
    try:
        values += [ast.literal_eval(each) for each in parts]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _last_word(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _kind(value: Any) -> frozenset[str]:
    """The kinds that a value is of."""
    match value:
        case None:
            return frozenset({"None"})
        case bool():
            return frozenset({"bool"})
        case int():
            return frozenset({"int", "float"})
        case float():
            return frozenset({"float"})
        case list():
            return frozenset({_LIST})
        case dict():
            return frozenset({_OBJECT})
    return frozenset({_TEXT})


def _json_or(text: str) -> Any:
    try:
        return json_value(text)
    except (ValueError, InvalidArgument):
        return text
