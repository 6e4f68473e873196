"""Puts encrypted arguments and results where JSON is kept, so that batches, chains and jobs pass them on as they do others.

    {"$encrypted": ["<fingerprint>", "<origin>", "<envelope>"], "order_id": "<hash>"}

The fingerprint is a hash of what is in the envelope: by it the same request made twice counts as the same. Searched arguments stand beside
it as hashes; and so does what a batch tells its callback, in which results are encrypted, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from atf.errors import NotDecrypted
from atf.rpc import task_pb2 as t
from atf.sdk import work_items
from atf.sdk.payload import FAILS
from atf.sdk.sealed import MARK, is_sealed

from .cipher import Cipher, bytes_of_text, text_of_bytes

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SEALED: Final = msgspec.json.Decoder(tuple[str, str, str])
_RESULT: Final = "result "


def bare_id(task_id: str) -> str:
    """A stored id without its partition: what a client knows before the store does."""
    return task_id.partition("-")[2]


def seal_value(
    cipher: Cipher, origin: str, plain: bytes, encoding: int, beside: Mapping[str, str] | None = None
) -> bytes:
    """Arguments or a result, encrypted, as JSON.

    Args:
        cipher: what encrypts.
        origin: what they are of.
        plain, encoding: themselves.
        beside: what stands beside them in plain.
    """
    body = bytes([encoding]) + plain
    sealed = cipher.hashed(origin, body), origin, text_of_bytes(cipher.seal(origin, body))
    return msgspec.json.encode({MARK: sealed, **(beside or {})})


def open_value(cipher: Cipher, sealed: bytes, fits: Callable[[str], bool]) -> tuple[bytes, int]:
    """What is encrypted under the mark, and its encoding.

    Args:
        cipher: what decrypts.
        sealed: what stands under the mark.
        fits: whether an origin is one of those that it may have here.

    Raises:
        NotDecrypted: it can't be decrypted, or is of elsewhere; says why.
    """
    try:
        _, origin, text = _SEALED.decode(sealed)
    except FAILS:
        raise NotDecrypted("it is encrypted, and damaged") from None
    if not fits(origin):
        raise NotDecrypted(f"it was encrypted for another place, {origin[:200]!r}: somebody has moved it here")
    body = cipher.open(origin, bytes_of_text(text))
    return body[1:], body[0]


# --- results ----------------------------------------------------------------------------------------------------------


def seal_result(cipher: Cipher, lambda_name: str, task_id: str, result: bytes, encoding: int) -> bytes:
    """The result of a task, encrypted, as JSON."""
    return seal_value(cipher, f"{_RESULT}{lambda_name} {bare_id(task_id)}", result, encoding)


def open_result(cipher: Cipher, task_id: str, result: bytes, encoding: int) -> tuple[bytes, int]:
    """A result as the lambda returned it, and its encoding; a plain one as it is. Raises as `open_value`."""
    if not is_sealed(result):
        return result, encoding
    mine = f" {bare_id(task_id)}"
    return open_value(
        cipher, value_under_mark(result), lambda origin: origin.startswith(_RESULT) and origin.endswith(mine)
    )


def _open_told(cipher: Cipher, told: bytes) -> bytes:
    """What a batch tells its callback, in which each result may be encrypted, as JSON."""
    if is_sealed(told):
        plain, encoding = open_value(cipher, value_under_mark(told), lambda origin: origin.startswith(_RESULT))
        if encoding != t.JSON:
            raise NotDecrypted("a result before it is raw bytes, which JSON can't hold")
        return plain
    if told[:1] == b"[" and MARK.encode() in told:
        items = msgspec.json.decode(told, type=list[msgspec.Raw])
        return msgspec.json.encode([msgspec.Raw(_open_told(cipher, bytes(each))) for each in items])
    return told


def value_under_mark(sealed: bytes) -> bytes:
    """What stands under the mark of encrypted arguments or an encrypted result."""
    try:
        return bytes(_OBJECT.decode(sealed)[MARK])
    except FAILS:
        raise NotDecrypted("it is encrypted, and damaged") from None


# --- arguments --------------------------------------------------------------------------------------------------------


def seal_arguments(cipher: Cipher, origin: str, payload: bytes, encoding: int, searched: Sequence[str] = ()) -> bytes:
    """Arguments, encrypted, with the hashes of those by which tasks are found."""
    return seal_value(cipher, origin, payload, encoding, _hashes(cipher, payload, searched) if searched else None)


def hashed_argument(cipher: Cipher, name: str, value: str) -> str:
    """The value of a searched argument as the index has it."""
    return cipher.hashed(f"search {name}", value.encode("utf-8", "surrogatepass"))


def _hashes(cipher: Cipher, payload: bytes, searched: Sequence[str]) -> dict[str, str]:
    from atf.sdk.search import values_as_text

    return {name: hashed_argument(cipher, name, text) for name, text in values_as_text(searched, payload).items()}


def hashed_texts(cipher: Cipher, texts: Sequence[str]) -> list[str]:
    """The canonical texts of an item's arguments, of which its work-item id is made."""
    return [cipher.hashed("item", "\n".join(texts).encode("utf-8", "surrogatepass"))]


def open_arguments(cipher: Cipher, task_id: str, spec: t.TaskSpec) -> tuple[bytes, int]:
    """The arguments of a task as its caller gave them, with what a batch has told it, and their encoding; plain ones as they are.

    Raises:
        NotDecrypted: they can't be decrypted, or are of another task; says why.
    """
    if not is_sealed(spec.payload):
        return spec.payload, spec.encoding
    try:
        given = _OBJECT.decode(spec.payload)
        parameter = ""

        def fits(origin: str) -> bool:
            nonlocal parameter
            kind, _, rest = origin.partition(" ")
            if kind in {"callback", "link"}:
                rest, _, parameter = rest.rpartition(" ")
            return _fits(kind, rest, task_id, spec)

        plain, encoding = open_value(cipher, bytes(given[MARK]), fits)
        if parameter and parameter in given:
            arguments: dict[str, Any] = _OBJECT.decode(plain)
            arguments[parameter] = msgspec.Raw(_open_told(cipher, bytes(given[parameter])))
            plain = msgspec.json.encode(arguments)
    except FAILS as error:
        raise NotDecrypted("its arguments are encrypted, and damaged") from error
    return plain, encoding


def _fits(kind: str, rest: str, task_id: str, spec: t.TaskSpec) -> bool:
    """Whether arguments of this origin may be those of a task."""
    name, own = getattr(spec, "lambda"), bare_id(task_id)
    match kind:
        case "task":
            return rest == f"{name} {own}"
        case "unique":
            return spec.HasField("unique") and rest == f"{name} {spec.unique.key}"
        case "job":
            return spec.HasField("tick") and rest == f"{name} {spec.tick.job}"
        case "callback":
            return bool(spec.batch.id) and rest == f"{name} {spec.batch.id}"
        case "link":
            return bool(spec.batch.id) and rest == name
        case "item":
            batch_id, _, text = rest.partition(" ")
            item = work_items.parse(task_id)
            digest = "" if item is None else item.work_item_id.partition("-")[0]
            return item is not None and item.batch_id == batch_id and digest == work_items.digest_of(name, [text])
    return False
