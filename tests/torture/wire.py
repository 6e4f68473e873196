"""Bytes that are no message, or none that ATF would send: how to spoil a good request on its way."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

MORE: Final = int(os.environ.get("ATF_FUZZ_EXAMPLES", "0"))
"""Examples of each kind, where more are wanted than the suite has time for."""
SEED: Final = int(os.environ.get("ATF_FUZZ_SEED", "0"))

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


class Spoiled(NamedTuple):
    """Bytes, and what was done to them."""

    kind: str
    data: bytes


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def some_of(wire_type: int) -> bytes:
    """A value of a wire type."""
    return {VARINT: b"\x01", FIXED64: b"\1" * 8, BYTES: b"\x01a", GROUP: b"", END_GROUP: b"", FIXED32: b"\1" * 4}[
        wire_type
    ]


def broken(message: Any) -> Iterator[Spoiled]:
    """What no parser may take."""
    yield Spoiled("the end of a group", tag(1, END_GROUP))
    yield Spoiled("a group without an end", tag(1_000, GROUP))
    yield Spoiled("groups in groups", tag(1_000, GROUP) * 100_000)
    if message.fields:  # of a message without any the library looks at no field's number
        yield Spoiled("field 0", b"\x00\x01")
    yield Spoiled("wire type 7", b"\x0f\x01")
    yield Spoiled("a tag of eleven bytes", b"\xff" * 10 + b"\x01")
    yield Spoiled("a number of eleven bytes", tag(1_000, VARINT) + b"\xff" * 10 + b"\x01")
    for size in (1, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1):
        yield Spoiled(f"an unknown field of {size} bytes that are missing", tag(1_000, BYTES) + varint(size))
        for field in message.fields:
            yield Spoiled(
                f"{size} bytes of {field.name} that are missing", tag(field.number, BYTES) + varint(size) + b"a" * 0
            )


def odd(message: Any, good: bytes) -> Iterator[Spoiled]:
    """What a parser may take, since it knows nothing of it; and good requests in odd clothes."""
    yield Spoiled("nothing", b"")
    yield Spoiled("an unknown field", good + tag(1_000, BYTES) + varint(3) + b"abc")
    yield Spoiled("many unknown fields", good + (tag(1_000, VARINT) + b"\x01") * 100_000)
    yield Spoiled("nested unknown groups", good + tag(1_000, GROUP) * 50 + tag(1_000, END_GROUP) * 50)
    yield Spoiled("twice the same", good + good)
    for field in message.fields:
        for wire_type in (VARINT, FIXED64, BYTES, FIXED32):
            value = tag(field.number, wire_type) + some_of(wire_type)
            yield Spoiled(f"{field.name} as wire type {wire_type}", good + value)
        yield Spoiled(f"{field.name} as an empty group", good + tag(field.number, GROUP) + tag(field.number, END_GROUP))
        yield Spoiled(f"{field.name} of 2^64 - 1", good + tag(field.number, VARINT) + varint((1 << 64) - 1))
        yield Spoiled(f"{field.name} of -2^63", good + tag(field.number, VARINT) + varint(1 << 63))


def random_bytes(chance: random.Random, count: int) -> Iterator[Spoiled]:
    for number in range(count):
        yield Spoiled(f"random bytes {number}", chance.randbytes(chance.choice((1, 2, 5, 20, 200, 5_000))))


def damaged(good: bytes, chance: random.Random, count: int) -> Iterator[Spoiled]:
    """A good request, cut off or with some bytes changed, left out, doubled or put in."""
    for at in range(len(good) if len(good) <= count else 0) or chance.sample(range(len(good)), min(count, len(good))):
        yield Spoiled(f"cut off after {at}", good[:at])
    for number in range(count):
        data = bytearray(good)
        for _ in range(chance.choice((1, 1, 1, 2, 8))):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(4):
                case 0 if at < len(data):
                    data[at] ^= 1 << chance.randrange(8)
                case 1 if at < len(data):
                    del data[at : at + chance.randrange(1, 9)]
                case 2:
                    data[at:at] = chance.randbytes(chance.randrange(1, 9))
                case _:
                    data[at:at] = data[: chance.randrange(len(data) + 1)]
        yield Spoiled(f"damaged {number}: {bytes(data).hex()}", bytes(data))
