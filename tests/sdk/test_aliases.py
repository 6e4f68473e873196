"""Payloads of before a parameter was renamed, and what tells signatures apart."""

from __future__ import annotations

import dataclasses
import enum
import os
import subprocess
import sys
from typing import Annotated, Any, Literal

import msgspec
import pytest

import atf
from atf.errors import InvalidArgument, Misfit
from atf.rpc import task_pb2 as t
from atf.sdk.lambdas import Lambda


def made(handler: Any, **options: Any) -> Lambda[..., Any]:
    return atf.App("shop").task(**options)(handler)  # type: ignore[no-any-return]


def paint(colour: str, coats: int = 1) -> None: ...


ALIASED = made(paint, aliases={"color": "colour", "layers": "coats"})


@pytest.mark.parametrize(
    ("payload", "values"),
    [
        (b'{"color":"red"}', {"colour": "red"}),
        (b'{"colour":"red"}', {"colour": "red"}),
        (b'{"color":"red","layers":2}', {"colour": "red", "coats": 2}),
        (b'{"colour":"red","layers":2}', {"colour": "red", "coats": 2}),
    ],
)
def test_an_old_name_stands_for_the_present_one(payload: bytes, values: dict[str, Any]) -> None:
    assert ALIASED.decode(payload, t.JSON) == values


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b'{"color":"red","colour":"red"}', "both 'color' and 'colour'"),
        (b'{"color":1}', "argument 'colour': Expected `str`, got `int`"),
        (b'{"color":"red","size":1}', "unknown field `size`"),
        (b'{"layers":1}', "missing required field `colour`"),
        (b"[]", "Expected `object`, got `array`"),
    ],
)
def test_what_fits_under_neither_says_why(payload: bytes, says: str) -> None:
    with pytest.raises(Misfit, match=says):
        ALIASED.decode(payload, t.JSON)


def test_bytes_that_are_no_json_fit_no_signature_whatever() -> None:
    with pytest.raises(InvalidArgument) as raised:
        ALIASED.decode(b'{"color":', t.JSON)
    assert not isinstance(raised.value, Misfit)


@pytest.mark.parametrize(
    ("aliases", "says"),
    [
        ({"color": "hue"}, "there is no parameter 'hue'; it has colour, coats"),
        ({"colour": "coats"}, "alias 'colour' is the name of a parameter"),
        ({"color": 1}, "give old names and the present ones"),
        (["color"], "give old names and the present ones"),
    ],
)
def test_an_alias_that_makes_no_sense_is_refused(aliases: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        made(paint, aliases=aliases)


# --- digests ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Colour(enum.Enum):
    RED = "red"


def test_what_decides_which_payloads_decode_changes_the_digest() -> None:
    class Wider(Size):
        depth: int = 1

    handlers: list[Any] = [
        paint,
        lambda color: None,
        lambda colour: None,
        lambda colour, coats=1: None,
    ]

    def typed(colour: int, coats: int = 1) -> None: ...
    def needed(colour: str, coats: int) -> None: ...
    def literal(colour: Literal["a", "b"], coats: int = 1) -> None: ...
    def sized(size: Size) -> None: ...
    def wider(size: dataclasses.make_dataclass("Size", [("width", int), ("depth", int)])) -> None: ...  # type: ignore[valid-type]
    def raw(colour: bytes) -> None: ...
    def several(colour: bytes, coats: int = 1) -> None: ...

    handlers += [typed, needed, literal, sized, wider, raw, several]
    digests = [made(each, name="x").digest for each in handlers]
    digests.append(made(paint, name="x", aliases={"color": "colour"}).digest)
    assert len(set(digests)) == len(digests)


def test_what_does_not_decide_it_leaves_the_digest() -> None:
    def same(ctx: atf.Context, coats: int = 7, colour: str = msgspec.UNSET) -> int:  # type: ignore[assignment]
        """Another order, another default, a context, a docstring."""
        return 1

    def plain(colour: str = "", coats: int = 1) -> None: ...

    def described(
        colour: Annotated[str, msgspec.Meta(description="of the paint", extra={"shown": object()})] = "", coats: int = 1
    ) -> None: ...

    assert made(same).digest == made(plain).digest == made(described).digest
    assert made(paint).digest != made(plain).digest


@pytest.mark.processes
def test_a_digest_is_the_same_in_every_process() -> None:
    script = (
        "import atf, dataclasses, enum, typing\n"
        "@dataclasses.dataclass\nclass S:\n  a: int\n  b: 'S | None' = None\n"
        "class C(enum.Enum):\n  R = 'r'\n  G = 'g'\n"
        "@atf.App('x').task\ndef f(s: S, c: C, u: int | str | None, d: dict[str, list[C]], l: typing.Literal['b', 'a']): ...\n"
        "print(f.digest)"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
    assert said.pop().strip()
