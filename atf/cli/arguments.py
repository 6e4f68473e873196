"""Texts as arguments of a lambda, by its registered signature: what `-a NAME=VALUE` and a cell of a CSV file give.

An argument that takes a text gets the text as it is written: `-a zip=75001` is "75001", whatever else the argument takes beside texts. Only
where it takes lists or objects too, what begins with [ or { is read as JSON. Any other argument is JSON of a kind that it takes. Where
nobody knows what it takes, a value is JSON, or else the text itself.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from atf.errors import InvalidArgument
from atf.payload import short
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.signature_text import ALIASES

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
_MEND: Final = {
    "bool": "write true or false",
    "int": "write a whole number",
    "float": "write a number",
    _LIST: 'write a JSON list, such as ["a", "b"]',
    _OBJECT: 'write a JSON object, such as {"a": 1}',
    "None": "write null",
}


class Takes(NamedTuple):
    """What one parameter takes."""

    annotation: str
    kinds: frozenset[str] = frozenset()
    """Of text, bool, int, float, None, list and object."""
    values: tuple[Any, ...] = ()
    """Beside these kinds, values that are taken."""

    def read(self, name: str, text: str) -> Any:
        """A text as a value of the parameter `name`.

        Raises:
            InvalidArgument: it takes no such value.
        """
        if text in self.values:
            return text
        if _TEXT in self.kinds:
            if self.kinds & {_LIST, _OBJECT} and text.lstrip()[:1] in {"[", "{"}:
                found = _json_or(text, text)
                return found if _kind(found) & self.kinds else text
            return text
        found = _json_or(text, text)
        if _kind(found) & self.kinds - {_TEXT} or any(
            found == each and type(found) is type(each) and not isinstance(each, str) for each in self.values
        ):
            return found
        raise InvalidArgument(f"argument {name!r}: expected {self.annotation}, got {short(text)}{self._mend()}")

    def _mend(self) -> str:
        ways = [_MEND[each] for each in ("bool", "float", "int", _LIST, _OBJECT, "None") if each in self.kinds]
        return f"; {ways[0]}" if ways else ""


class Parameters(NamedTuple):
    """What a lambda takes, by its registered signature."""

    names: tuple[str, ...]
    positional: tuple[str, ...]
    """Those that may be given by position."""
    required: frozenset[str]
    takes: Mapping[str, Takes | None]
    """By name; None: nobody knows."""
    aliases: Mapping[str, str]
    """Old names of them -> the present ones."""

    @property
    def texts(self) -> frozenset[str]:
        """Those that take texts."""
        return frozenset(name for name, takes in self.takes.items() if takes is not None and _TEXT in takes.kinds)

    def check(self, given: Iterable[str]) -> None:
        """Checks the names of the arguments of one call.

        Raises:
            InvalidArgument: there is no such parameter, the message names the nearest; or an argument is missing.
        """
        present = {self.aliases.get(name, name) for name in given}
        if unknown := sorted(present - set(self.names)):
            near = get_close_matches(unknown[0][:80], self.names, n=1)
            mend = f"; did you mean {near[0]!r}? It takes" if near else "; it takes"
            raise InvalidArgument(
                f"the lambda has no argument {unknown[0][:80]!r}{mend} {', '.join(self.names) or 'none'}"
            )
        if missing := sorted(self.required - present):
            raise InvalidArgument(f"argument {missing[0]!r} is missing")

    def read(self, name: str, text: str) -> Any:
        """A text as a value of one argument.

        Raises:
            InvalidArgument: it takes no such value.
        """
        takes = self.takes.get(self.aliases.get(name, name))
        return takes.read(name, text) if takes is not None else untyped(text)


def untyped(text: str) -> Any:
    """A text as a value of which nobody knows what it shall be: JSON, or else the text itself.

    Raises:
        InvalidArgument: it is a number that JSON does not have.
    """
    try:
        return json_value(text)
    except ValueError:
        return text


def json_value(text: str) -> Any:
    """A JSON value.

    Raises:
        ValueError: it is none.
        InvalidArgument: it is nested too deeply, or a number that JSON does not have.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise InvalidArgument("the JSON is nested too deeply") from None


async def registered(stub: api.Frontend, lambda_name: str) -> Parameters | None:
    """What a lambda takes; None: its signature can't be read.

    Raises:
        UnknownLambda: it is not registered; the message names the nearest.
    """
    known = (await stub.list_lambdas(f.ListLambdasRequest(**{"lambda": lambda_name}))).lambdas
    return next((parameters_of(each.spec.signature) for each in known if each.spec.name == lambda_name), None)


def parameters_of(signature: str) -> Parameters | None:
    """The parameters in the text of a signature, such as "(path: str, *, size: int = 256) -> dict"; None: it can't be read."""
    signature, _, said = signature.partition(ALIASES)
    given = _parsed(signature)
    if given is None:
        return None
    positional = [*given.posonlyargs, *given.args]
    plain = positional[: len(positional) - len(given.defaults)]
    by_name = [each for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    every = [*positional, *given.kwonlyargs]
    return Parameters(
        tuple(each.arg for each in every),
        tuple(each.arg for each in positional),
        frozenset(each.arg for each in (*plain, *by_name)),
        {each.arg: _takes(each.annotation) for each in every},
        {old: now for old, _, now in (each.partition(" = ") for each in said.split(", ")) if now},
    )


def _parsed(signature: str) -> ast.arguments | None:
    for text in (signature, signature.rpartition(")")[0] + ")"):  # what stands behind the arrow may be no Python
        try:
            function = ast.parse(f"def _{text}: ...").body[0]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if isinstance(function, ast.FunctionDef):
            return function.args
    return None


def _takes(annotation: ast.expr | None) -> Takes | None:
    if annotation is None:
        return None
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):  # one that was not resolved
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    kinds: set[str] = set()
    values: list[Any] = []
    if not _gather(annotation, kinds, values):
        return None
    return Takes(ast.unparse(annotation), frozenset(kinds), tuple(values))


def _gather(node: ast.expr, kinds: set[str], values: list[Any]) -> bool:
    """Adds what an annotation takes; False: a part of it is not understood."""
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _gather(left, kinds, values) and _gather(right, kinds, values)
        case ast.Constant(value=None):
            kinds.add("None")
            return True
        case ast.Name() | ast.Attribute():
            kind = _KINDS.get(_last_word(node))
            if kind is not None:
                kinds.add(kind)
            return kind is not None
        case ast.Subscript(value=of, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            match _last_word(of):
                case "Annotated":
                    return bool(parts) and _gather(parts[0], kinds, values)
                case "Optional":
                    kinds.add("None")
                    return _gather(inner, kinds, values)
                case "Union":
                    return all(_gather(each, kinds, values) for each in parts)
                case "Literal":
                    return _literals(parts, values)
            return _gather(of, kinds, values)
    return False


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
            return frozenset({"int", "float"} if value.is_integer() else {"float"})
        case list():
            return frozenset({_LIST})
        case dict():
            return frozenset({_OBJECT})
    return frozenset({_TEXT})


def _json_or(text: str, otherwise: str) -> Any:
    try:
        return json_value(text)
    except (ValueError, InvalidArgument):
        return otherwise


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # JSON has no such number, and a lambda that takes one would get a text in its place
        raise InvalidArgument(f'{text} is no JSON number; if the text is meant, put it in double quotes: "{text}"')
    return number
