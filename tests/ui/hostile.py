"""A frontend whose answers have the worst text in every field that takes text, and the most rows in every list."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor as Kind
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from atf.rpc.stub import snake_case
from tests.recorder import SERVICE

EVIL: Final = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}\u202egnp.exe\u200b\x00\x1b[31m&amp;</title>"
)
"""Ends attributes and elements, runs a script, turns the order of letters, hides, and acts on a terminal."""
_DEEPEST: Final = 4


def filled(kind: type[Message], rows: int, text: str = EVIL, depth: int = 0) -> Any:
    """A message with something in every field."""
    made: Any = kind()
    fields: Any = kind.DESCRIPTOR.fields
    for field in fields:
        many = field.label == Kind.LABEL_REPEATED if hasattr(field, "label") else field.is_repeated
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(made, field, text)
        elif field.message_type is not None:
            if depth < _DEEPEST:
                one = filled(GetMessageClass(field.message_type), 3, text, depth + 1)
                if many:
                    getattr(made, field.name).extend([one] * (rows if depth == 0 else 2))
                elif field.containing_oneof is None or field.containing_oneof.name.startswith("_"):
                    getattr(made, field.name).CopyFrom(one)
        else:
            value = _value(field, text)
            if many:
                getattr(made, field.name).extend([value] * 3)
            else:
                setattr(made, field.name, value)
    return made


def _fill_map(made: Any, field: Any, text: str) -> None:
    of = field.message_type.fields_by_name
    key = text if of["key"].cpp_type == Kind.CPPTYPE_STRING else 1
    if of["value"].message_type is None:
        getattr(made, field.name)[key] = _value(of["value"], text)


def _value(field: Any, text: str) -> Any:
    match field.cpp_type:
        case Kind.CPPTYPE_STRING:
            return text.encode() if field.type == Kind.TYPE_BYTES else text
        case Kind.CPPTYPE_BOOL:
            return True
        case Kind.CPPTYPE_ENUM:
            return field.enum_type.values[-1].number
        case Kind.CPPTYPE_DOUBLE | Kind.CPPTYPE_FLOAT:
            return 0.5
        case _:
            return 1_700_000_000_000_000 if field.name.endswith("_us") else 7


class Hostile:
    """Answers every RPC with a message that has something in every field.

    Args:
        rows: of each list of an answer.
        text: in every field that takes text.
    """

    def __init__(self, rows: int = 3, text: str = EVIL) -> None:
        self.rows, self.text = rows, text


class Empty:
    """Answers every RPC with an empty message, or where there must be one, with a list of one that is empty."""


def _hostile(output: Any) -> Callable[..., Any]:
    async def answer(self: Hostile, _request: Any, *, timeout: float = 10) -> Any:
        return _answer(output.name, self.rows, self.text)

    return answer


@functools.cache
def _answer(name: str, rows: int, text: str) -> Any:
    (output,) = {each.output_type for each in SERVICE.methods if each.output_type.name == name}
    found = filled(GetMessageClass(output), rows, text)
    if name in {"ListLambdasReply", "RedriveReply"}:  # whose pages are read until there are none
        found.next_page_token = ""
    return found


def _empty(output: Any) -> Callable[..., Any]:
    async def answer(_self: Empty, request: Any, *, timeout: float = 10) -> Any:
        found: Any = GetMessageClass(output)()
        if output.name == "ListLambdasReply" and getattr(request, "lambda"):
            found.lambdas.add()
        return found

    return answer


for each in SERVICE.methods:
    setattr(Hostile, snake_case(each.name), _hostile(each.output_type))
    setattr(Empty, snake_case(each.name), _empty(each.output_type))
