"""JSON in and out: values that commands read, and what they print for programs.

The names of JSON fields are those of the .proto files, and stay: an instant ends in _at_us, a status is its name. A result is
`result` if it is JSON, else `result_base64`.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t
from atf.sdk.sealed import without_sealed
from atf.visible import json_text

if TYPE_CHECKING:
    from google.protobuf.message import Message


def print_json(value: Any) -> None:
    """One JSON document, on one line."""
    print(json_for(sys.stdout, value), flush=True)  # whoever reads a pipe waits for it


def json_for(out: IO[str], value: Any) -> str:
    """A value as JSON on one line. Letters that the stream does not have are escaped, so that none is lost."""
    plain = not (getattr(out, "encoding", None) or "utf-8").lower().startswith("utf")
    return json_text(json.dumps(value, ensure_ascii=plain))


def message_json(message: Message, names: str = "") -> dict[str, Any]:
    """Fields of a message for programs.

    Args:
        message: of which a field that is a message is one of these, too.
        names: of the fields, with spaces between; "": all. Numbers stay numbers: protobuf's own JSON would write the long ones as text.
    """
    wanted = names.split() or [field.name for field in message.DESCRIPTOR.fields]
    return {name: _plain(getattr(message, name)) for name in wanted}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(sorted(value.items()))
    if hasattr(value, "DESCRIPTOR"):
        return message_json(value)
    return value if isinstance(value, str | bytes | int | float) else [_plain(each) for each in value]


def bytes_json(name: str, value: bytes, encoding: int) -> dict[str, Any]:
    """A payload or result for programs, under its name if it is JSON, else in base64."""
    if not value:
        return {name: None}
    value = without_sealed(value)
    if encoding == t.JSON:
        try:
            return {name: json_value(value)}
        except (ValueError, InvalidArgument):
            pass  # not what it says it is, or a bomb: show it as it is
    return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def json_value(text: str | bytes) -> Any:
    """A JSON value.

    Raises:
        ValueError: it is none.
        InvalidArgument: it is nested too deeply, or a number that JSON does not have.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise InvalidArgument("the JSON is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # JSON has no such number, and a lambda that takes one would get a text in its place
        raise InvalidArgument(f'{text} is no JSON number; if the text is meant, put it in double quotes: "{text}"')
    return number
