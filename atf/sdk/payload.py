"""Encodes values as bytes and decodes them: JSON, or raw bytes. Knows nothing of handlers (signature.py does).

JSON has no NaN and no infinity, and a reader would get null in their place: they are refused.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from atf.errors import InvalidArgument, NotDecrypted, PermissionDenied
from atf.rpc import task_pb2 as t
from atf.task import MAX_PAYLOAD_BYTES, MAX_RESULT_BYTES

from .arrivals import lost_key
from .sealed import as_stored, is_sealed, key_of, why_of
from .values import ENCODER, form_of

_ANY: Final = msgspec.json.Decoder(Any)
FAILS: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What msgspec raises on values that JSON can't hold and on bytes it can't read; its own errors are ValueErrors."""


def encode_arguments(name: str, given: Mapping[str, Any]) -> bytes:
    """Arguments by name as a JSON object.

    Raises:
        InvalidArgument: JSON can't hold a value; the message names its argument.
    """
    try:
        payload = ENCODER.encode(given)
    except FAILS as failed:
        for argument, value in given.items():
            try:
                ENCODER.encode(value)
            except FAILS as error:
                raise InvalidArgument(f"{name}(): argument {argument!r}: {reason(error)}") from None
        raise InvalidArgument(f"{name}(): the name of an argument: {reason(failed)}") from None
    for argument, value in given.items() if _may_hide(payload) else ():
        if found := _not_finite(msgspec.to_builtins(value, enc_hook=form_of)):
            raise InvalidArgument(f"{name}(): argument {argument!r}: JSON can't hold {found}")
    return payload


def check_size(name: str, payload: bytes) -> None:
    """Refuses what no store would take.

    Raises:
        InvalidArgument: the payload is over 1 MiB.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InvalidArgument(
            f"{name}(): the arguments take {len(payload)} bytes, at most {MAX_PAYLOAD_BYTES} (1 MiB) are allowed."
            " Keep large data elsewhere and pass its name"
        )


def encode_named(name: str, payload: Mapping[str, Any] | bytes) -> tuple[bytes, t.Encoding]:
    """The (payload, encoding) for a lambda of which only the name is known.

    Args:
        name: "namespace/name", for messages.
        payload: the arguments by name, or raw bytes.

    Raises:
        InvalidArgument: JSON can't hold a value, or the payload is over 1 MiB.
    """
    if isinstance(payload, Mapping):
        encoded, encoding = encode_arguments(name, dict(payload)), t.JSON
        if found := lost_key(payload):
            raise InvalidArgument(f"{name}: of the keys {found} JSON would keep one, since they are the same text")
    elif isinstance(payload, bytes | bytearray | memoryview):
        encoded, encoding = bytes(payload), t.RAW
    else:
        raise TypeError(f"{name}: the payload must be a mapping of arguments or bytes, got {short(payload)}")
    check_size(name, encoded)
    return encoded, encoding


def encode_result(name: str, value: Any) -> tuple[bytes, t.Encoding]:
    """What a handler returned as (bytes, encoding): raw if it is bytes, else JSON.

    Raises:
        InvalidArgument: JSON can't hold it, or it is over 64 KiB.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        result, encoding = bytes(value), t.RAW
    else:
        result, encoding = _json_result(name, value), t.JSON
    if len(result) > MAX_RESULT_BYTES:
        raise InvalidArgument(
            f"{name} returned {len(result)} bytes, and a result has at most {MAX_RESULT_BYTES} (64 KiB): store what is large elsewhere,"
            " and return a reference to it"
        )
    return result, encoding


def _json_result(name: str, value: Any) -> bytes:
    if value is None:
        return b"null"
    try:
        result = ENCODER.encode(value)
        found = _not_finite(msgspec.to_builtins(value, enc_hook=form_of)) if _may_hide(result) else ""
    except FAILS as error:
        if inspect.isgenerator(value) or inspect.isasyncgen(value):
            raise InvalidArgument(
                f"{name} returned a generator, and nothing of it has run: return a list of what it yields"
            ) from None
        raise InvalidArgument(f"{name} returned what JSON can't hold: {reason(error)}") from None
    if found:
        raise InvalidArgument(f"{name} returned what JSON can't hold: {found}")
    if keys := lost_key(value):
        raise InvalidArgument(
            f"{name} returned a mapping of whose keys {keys} JSON would keep one: they are the same text"
        )
    return result


def withheld(task_id: str) -> PermissionDenied:
    """The error of a result that was left out."""
    return PermissionDenied(f"the result of task {task_id} is withheld: it takes a token with --can read_payload")


def not_decrypted(name: str, sealed: bytes) -> NotDecrypted:
    """The error of a result or arguments that are still encrypted."""
    why = why_of(sealed) or (
        f"it is encrypted with the key {key_of(sealed) or '?'}, and this client has no key file: set ATF_CODEC_KEYS, or give codec_keys"
    )
    error = NotDecrypted(f"the result of {name} can't be read: {why}")
    error.key_id, error.data = key_of(sealed), as_stored(sealed)
    return error


def decode_result(name: str, result: bytes, encoding: int, decoder: msgspec.json.Decoder[Any] = _ANY) -> Any:
    """A recorded result as what `decoder` reads; empty JSON is None.

    Raises:
        InvalidArgument: it does not fit, for instance since the handler has changed.
        NotDecrypted: it is encrypted.
    """
    if encoding == t.RAW:
        return result
    if not result:
        return None
    if is_sealed(result):
        raise not_decrypted(name, result)
    try:
        return decoder.decode(result)
    except FAILS as error:
        raise InvalidArgument(f"the result of {name} does not fit its annotation: {reason(error)}") from None


def decoded(decode: Callable[[], Any]) -> Any:
    """What decodes a result, for a record with more in it: of one that is encrypted the error itself, since the rest can be read."""
    try:
        return decode()
    except NotDecrypted as error:
        return error


def reason(error: BaseException) -> str:
    """Why a value could not be encoded or decoded, as part of a sentence."""
    return "it is nested too deeply, or holds itself" if isinstance(error, RecursionError) else str(error)


def short(value: object) -> str:
    """A value as messages show it."""
    try:
        # An instant's repr is cut before it says its zone.
        text = str(value) if isinstance(value, datetime) else repr(value)
    except Exception:  # noqa: BLE001  nested too deeply, more digits than Python prints, or a __repr__ of the user's
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}…"


def _may_hide(encoded: bytes) -> bool:
    """Whether it may hold numbers that are not finite, going by how msgspec writes them as values and as keys."""
    return b"null" in encoded or b'"nan"' in encoded or b'inf"' in encoded


def _not_finite(value: object) -> str:
    """The first number within `value` that is not finite; "" if there is none."""
    stack = [value]
    while stack:
        match stack.pop():
            case float() as number if not math.isfinite(number):
                return str(number)
            case dict() as mapping:
                stack.extend(mapping)
                stack.extend(mapping.values())
            case list() | tuple() | set() | frozenset() as items:
                stack.extend(items)
    return ""
