"""A value arrives as what was given, or is refused where it was given; a type that can't travel is refused at the decorator."""

from __future__ import annotations

import collections
import enum
import math
import subprocess
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Optional, Protocol, TypedDict, Union
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest

import atf
from atf.rpc import task_pb2 as t
from atf.sdk.arrivals import difference
from atf.testing import Harness


class Colour(enum.Enum):
    RED = "red"


class Size(enum.StrEnum):
    BIG = "big"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    y: float = 0.5


@dataclass(eq=False)
class Pointless:
    """Without an `==` of its own."""

    at: Point
    names: tuple[str, ...] = ()


@dataclass
class Named:
    name: str
    tags: list[str] = field(default_factory=list)


class Pair(NamedTuple):
    a: int
    b: str


class Row(TypedDict):
    id: UUID
    when: datetime


class Form(msgspec.Struct, eq=False):
    at: datetime
    sizes: dict[int, str]


class Text(str):
    __slots__ = ()


class Number(float):
    pass


class Identity(UUID):
    """As drivers of databases have it."""


class Instant(datetime):
    """As libraries of dates have it."""


@attrs.define
class Order:
    id: int = attrs.field(validator=attrs.validators.gt(0))
    lines: list[str] = attrs.field(factory=list)


class User(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    name: str
    born: date | None = None
    home: Path | None = None
    age: int = pydantic.Field(default=1, ge=0, alias="years")

    @pydantic.computed_field  # type: ignore[prop-decorator]  # of Pydantic's
    @property
    def initial(self) -> str:
        return self.name[0]


class Admin(User):
    rights: list[str] = []


class Robot(pydantic.BaseModel):
    serial: int


class Secret(pydantic.BaseModel):
    password: pydantic.SecretStr


class Noted(pydantic.BaseModel):
    """Two equal ones are unequal, for what is private."""

    text: str
    _seen: object = pydantic.PrivateAttr(default_factory=object)


@dataclass
class Parcel:
    """Holds what msgspec does not know."""

    to: User
    label: Path
    also: list[Robot]
    order: Order | None = None


UUID_1, NOON = UUID(int=1), datetime(2031, 1, 2, 12, tzinfo=UTC)
PARIS = timezone(timedelta(hours=1))
ANNA = User(name="Anna", born=date(2001, 2, 3), home=Path("/a"), years=3)


def handler(kind: Any, returns: Any = Any) -> Callable[..., Any]:
    def echo(value):  # type: ignore[no-untyped-def]
        return value

    echo.__annotations__ = {"value": kind, "return": returns}
    return echo


def taking(kind: Any) -> Any:
    return atf.App("v").task(handler(kind, kind))


ARRIVES: list[tuple[Any, Any]] = [
    (str, "text"),
    (int, 2**70),
    (float, 1.5),
    (bool, True),
    (Any, {"a": [1, None, 1.5, "b", {"c": True}]}),
    (object, [1]),
    (dict, {"a": 1}),
    (dict[int, str], {1: "a", 2: "b"}),
    (dict[UUID, Decimal], {UUID_1: Decimal("1.50")}),
    (dict[str, Any], collections.OrderedDict(a=1)),
    (dict[str, int], collections.Counter("aab")),
    (Mapping[str, int], {"a": 1}),
    (list[datetime], [NOON, NOON.astimezone(PARIS), datetime(2031, 1, 2, 3, 4, 5, 678, tzinfo=PARIS)]),
    (tuple[int, str], (1, "a")),
    (tuple[UUID, ...], (UUID_1,)),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (Sequence[int], [1]),
    (Iterable[int], [1]),
    (Hashable, "a"),
    (bytes | None, b"\x00\xff"),
    (date, date(2031, 1, 2)),
    (time, time(12, 30)),
    (timedelta, timedelta(days=1, microseconds=5)),
    (Decimal, Decimal("1.10")),
    (UUID, UUID_1),
    (Colour, Colour.RED),
    (Literal["a", 3], 3),
    (Annotated[int, msgspec.Meta(ge=3)], 4),
    (str | int | None, None),
    (Optional[Point], Point(1)),  # noqa: UP045  as users write it
    (Union[int, list[str]], ["a"]),  # noqa: UP007
    (list[Pointless], [Pointless(Point(1), ("a",))]),
    (Form, Form(NOON, {3: "a"})),
    (Pair, Pair(1, "a")),
    (Row, {"id": UUID_1, "when": NOON}),
    # subclasses, where the value is the same
    (str, Text("a")),
    (str, Size.BIG),
    (Size, Size.BIG),
    (int, Level.LOW),
    (float, Number(1.5)),
    (UUID, Identity(int=1)),
    (datetime, Instant(2031, 1, 2, tzinfo=UTC)),
    (dict[str, Any], {Text("a"): Text("b")}),
    # paths
    (Path, Path("/a/b")),
    (PurePosixPath, PurePosixPath("a")),
    (list[Path] | None, [Path("a")]),
    (dict[str, Path], {"a": Path("b")}),
    (dict[Path, int], {Path("b"): 1}),
    # attrs
    (Order, Order(3, ["a", "b"])),
    (dict[str, list[Order]], {"a": [Order(3)]}),
    # Pydantic
    (User, ANNA),
    (list[User], [ANNA]),
    (User | None, None),
    (dict[str, tuple[User, int]], {"a": (ANNA, 1)}),
    (User | Robot, Robot(serial=3)),
    (list[Robot | User | int] | None, [ANNA, Robot(serial=1), 7]),
    (Annotated[User, "a note"], ANNA),
    (Noted, Noted(text="a")),
    (Parcel, Parcel(ANNA, Path("x"), [Robot(serial=1)], Order(3))),
    (Any, []),
]


def shown(each: tuple[Any, ...]) -> str:
    return f"{each[0]} {each[1]!r}".replace("tests.sdk.test_values.", "")[:80]


def test_a_whole_number_is_taken_where_any_number_is() -> None:
    assert taking(float).prepare(3).request.spec.payload == b'{"value":3}'
    assert taking(datetime).prepare(datetime(2031, 1, 1)).request.spec.payload  # noqa: DTZ001  without a time zone, as it is


@pytest.mark.parametrize("each", ARRIVES, ids=shown)
def test_a_value_arrives_as_what_was_given_and_so_does_a_result(each: tuple[Any, Any]) -> None:
    kind, value = each
    known = taking(kind)
    prepared = known.prepare(value)
    spec = prepared.request.spec
    arrived = known.decode(spec.payload, spec.encoding)["value"]
    if not isinstance(value, Pointless | Form | Noted | list):
        assert arrived == value
        assert difference(value, arrived) is None
    assert known.prepare(arrived).request.spec.payload == spec.payload
    returned = prepared.decode(*known.encode_result(value))
    assert known.encode_result(returned) == known.encode_result(value)


@pytest.mark.parametrize("fold", [0, 1])
def test_an_instant_in_the_hour_that_clocks_pass_twice_is_taken(fold: int) -> None:
    """Python finds it unequal to every instant with another tzinfo."""
    value = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=fold)
    for kind, given in ((datetime, value), (list[datetime | None], [value]), (Form, Form(value, {}))):
        spec = taking(kind).prepare(given).request.spec
        assert f"T02:30:00+0{2 - fold}:00".encode() in spec.payload


def test_values_arrive_through_the_whole_pipeline() -> None:
    app, came = atf.App("v"), []

    @app.task
    def keep(parcel: Parcel, paths: list[Path], *, either: User | Robot | None = None) -> Parcel:
        came.append((parcel, paths, either))
        return parcel

    parcel = Parcel(ANNA, Path("x"), [], Order(3))
    with Harness(app) as h:
        handle = keep.schedule(parcel, [Path("y")], either=Robot(serial=1))
        h.run_until_idle()
        assert handle.result() == parcel
        assert came == [(parcel, [Path("y")], Robot(serial=1))]


CHANGES: list[tuple[Any, Any, str]] = [
    (
        str,
        b"abc",
        r"b'abc', of type bytes, would arrive as 'YWJj', of type str. Annotate the parameter as what you give",
    ),
    (str, NOON, "of type datetime, would arrive as '2031-01-02T12:00:00Z', of type str"),
    (str, NOON.date(), "of type date, would arrive"),
    (str, timedelta(1), "of type timedelta, would arrive as 'P1D'"),
    (str, UUID_1, "of type UUID, would arrive"),
    (str, Decimal("1.5"), "of type Decimal, would arrive"),
    (str, Colour.RED, "of type Colour, would arrive as 'red'"),
    (str, Path("a"), "would arrive as 'a', of type str"),
    (str | None, UUID_1, "of type UUID, would arrive"),
    (Any, UUID_1, "of type UUID, would arrive"),
    (Any, (1, 2), r"\(1, 2\), of type tuple, would arrive as \[1, 2\], of type list"),
    (Any, {1}, "of type set, would arrive"),
    (Any, Point(1), "of type Point, would arrive"),
    (Any, ANNA, "of type User, would arrive"),
    (Any, {1: "a"}, "a key: 1, of type int, would arrive as '1', of type str"),
    (Any, {"a": [0, {"b": NOON}]}, r"at \['a'\]\[1\]\['b'\]: .*of type datetime"),
    (dict, {"when": NOON}, r"at \['when'\]"),
    (dict[str, str], {1: "a", "1": "b"}, "a key: 1, of type int, would arrive as '1', of type str"),
    (dict[str, str], {"id": UUID_1}, r"at \['id'\]"),
    (dict[str, str], {UUID_1: "a"}, "a key: UUID"),
    (list[str], ["a", UUID_1], r"at \[1\]: UUID.*of type UUID"),
    (list[str], ["a"] * 20_000 + [UUID_1], r"at \[20000\]"),
    (list[int], (1, 2), "of type tuple, would arrive"),
    (list[int], {1}, "of type set, would arrive"),
    (set[int], [1], "of type list, would arrive"),
    (tuple[int, ...], [1], "of type list, would arrive"),
    (datetime, "2031-01-01T00:00:00Z", r"of type str, would arrive as 2031-01-01 00:00:00\+00:00, of type datetime"),
    (datetime, date(2031, 1, 1), r"Invalid RFC3339 encoded datetime, got datetime\.date\(2031, 1, 1\)"),
    (datetime, datetime(2031, 1, 1, tzinfo=timezone(timedelta(seconds=1))), r"\+00:00:01 would arrive as 2031-01-01"),
    (date, NOON, "Invalid RFC3339 encoded date, got 2031-01-02 12:00:00"),
    (bytes | None, "ä", "Invalid base64 encoded string, got 'ä'"),
    (Literal["a", "b"], "c", "Invalid enum value 'c'$"),
    (Row, {"id": UUID_1, "when": NOON, "more": 1}, "a key: 'more' would not arrive: the annotation has no such key"),
    (UUID, str(UUID_1), "of type str, would arrive as UUID"),
    (Colour, "red", "of type str, would arrive as <Colour.RED"),
    (bytes | None, "YWJj", "of type str, would arrive as b'abc'"),
    (Decimal, 0.1, "of type float, would arrive as Decimal"),
    (Named, Named(UUID_1), r"at \.name: UUID.*of type UUID"),  # type: ignore[arg-type]
    (Named, Named("a", ("b",)), r"at \.tags"),  # type: ignore[arg-type]
    (Named, {"name": "a"}, "of type dict, would arrive as Named"),
    (Pointless, Pointless(Point(1), ["a"]), r"at \.names"),  # type: ignore[arg-type]
    (Point, Point("1"), r"at \.x: Expected `int`, got `str`"),  # type: ignore[arg-type]
    (Row, {"id": str(UUID_1), "when": NOON}, r"at \['id'\]: .*of type str, would arrive as UUID"),
    (int, 1.0, "Expected `int`, got `float`"),
    (int, True, "Expected `int`, got `bool`"),
    (float, True, "Expected `float`, got `bool`"),
    (float, Decimal("1.5"), "Expected `float`, got `str`"),
    (float, 2**53 + 1, "would arrive as"),
    (User, Admin(name="a", rights=["x"]), "rights: Extra inputs are not permitted"),
    (User, {"name": "a"}, "of type dict, would arrive as User"),
    (User, Robot(serial=1), "name: Field required; serial: Extra"),
    (Secret, Secret(password=pydantic.SecretStr("x")), r"at \.password: .* would arrive as another one, though"),
    (User, User.model_construct(name="a", age=-1), "years: Input should be greater than or equal to 0"),
    (Path, "a", "of type str, would arrive as PosixPath"),
    (Path, 3, "Expected `Path`, got `int`"),
    (list[Path], [Path("a"), "b"], r"at \[1\]"),
]


@pytest.mark.parametrize("each", CHANGES, ids=shown)
def test_a_value_that_would_arrive_as_another_is_refused_where_it_is_given(each: tuple[Any, Any, str]) -> None:
    kind, value, says = each
    known = taking(kind)
    ways: list[Callable[[], Any]] = [
        lambda: known.prepare(value),
        lambda: known.elements(None).work_item_id((value,), {}),
        lambda: known.task_without("", (value,), {}, "chain"),
    ]
    for give in ways:
        with pytest.raises(TypeError, match=rf"v/echo\(\): argument 'value'.*({says})"):
            give()


def test_an_item_of_a_batch_and_the_other_arguments_of_a_chain_are_looked_at_alike() -> None:
    app = atf.App("v")

    @app.task
    def store(page: str, table: str) -> None: ...

    with pytest.raises(TypeError, match=r"argument 'table'.*of type UUID"):
        store.task_without("page", (UUID_1,), {}, "chain")
    with pytest.raises(TypeError, match=r"chain: .*unexpected|chain: .*too many|chain: .*missing"):
        store.task_without("page", (), {"tabel": 1}, "chain")
    from atf.rpc import batch_pb2 as b

    with pytest.raises(TypeError, match=r"argument 'table'.*of type UUID"):
        store.elements(None).add(b.BatchItems(), ("a", UUID_1))


TWICE: dict[Any, str] = {1: "a", "1": "b"}


@pytest.mark.parametrize("value", [TWICE, {"a": [{UUID_1: 1, str(UUID_1): 2}]}, [Form(NOON, TWICE)]])
def test_keys_that_are_the_same_text_are_refused_also_where_nothing_else_is_known(value: Any) -> None:
    from atf.sdk.schedulable import named

    with pytest.raises(atf.InvalidArgument, match=r"a/b: of the keys .* and .* JSON would keep one"):
        named("a/b", {"value": value}, {})
    with pytest.raises(atf.InvalidArgument, match=r"v/echo returned a mapping of whose keys .* JSON would keep one"):
        taking(Any).encode_result(value)


def test_a_caller_that_knows_the_name_alone_may_give_what_the_handler_reads() -> None:
    from atf.sdk.schedulable import named

    spec = named("v/echo", {"value": ANNA}, {}).request.spec
    assert taking(User).decode(spec.payload, spec.encoding) == {"value": ANNA}
    spec = named("v/echo", {"value": (Path("a"), UUID_1)}, {}).request.spec
    assert taking(tuple[Path, UUID]).decode(spec.payload, spec.encoding) == {"value": (Path("a"), UUID_1)}


def test_a_models_own_validation_runs_where_the_task_does() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        taking(User).decode(b'{"value":{"name":"a","years":-1}}', t.JSON)
    with pytest.raises(ValueError, match="'id' must be > 0"):
        taking(Order).decode(b'{"value":{"id":0}}', t.JSON)
    with pytest.raises(
        atf.InvalidArgument, match="the payload does not fit: argument 'value': Expected `Path`, got `int`"
    ):
        taking(Path).decode(b'{"value":3}', t.JSON)


def test_what_is_no_number_arrives_as_such() -> None:
    assert taking(Decimal).prepare(Decimal("NaN")).request.spec.payload == b'{"value":"NaN"}'
    with pytest.raises(atf.InvalidArgument, match="JSON can't hold nan"):
        taking(float).prepare(math.nan)


# --- types --------------------------------------------------------------------------------------------------------------


class Asked(Protocol):
    def ask(self) -> str: ...


@dataclass
class Deep:
    inner: list[Point | None]
    way: dict[str, complex]


@attrs.define
class Private:
    _of: int = 0


@dataclass
class Tree:
    children: list[Tree]


NO_TYPES: list[tuple[Any, str]] = [
    (complex, "complex has no form in JSON: give what it is made of"),
    (Iterator[int], "Iterator has no form"),
    (AsyncIterator[int], "AsyncIterator has no form"),
    (Callable[[], int], "Callable has no form"),
    (type, "type has no form"),
    (range, "range has no form"),
    (Exception, "Exception has no form"),
    (Asked, "Asked has no form"),
    (list[complex], "complex has no form"),
    (Deep, "complex has no form"),
    (dict[str, Deep | None], "complex has no form"),
    (subprocess.Popen, "subprocess.Popen has no form"),
    (atf.Handle, "Handle has no form"),
    (Path | str, "custom type"),
    (Point | Named, "Type unions"),
    (Private, "Private: its attribute '_of' would not travel: name it without the underscore"),
    (list[Private] | None, "would not travel"),
]


@pytest.mark.parametrize(("kind", "says"), NO_TYPES, ids=[str(each[0]) for each in NO_TYPES])
def test_a_type_that_cannot_travel_is_refused_at_the_decorator(kind: Any, says: str) -> None:
    with pytest.raises(TypeError, match=f"lambda v/echo: parameter 'value': .*{says}"):
        atf.App("v").task(handler(kind))
    with pytest.raises(TypeError, match=f"lambda v/echo: what it returns: .*{says}"):
        atf.App("v").task(handler(Any, kind))


@pytest.mark.parametrize("kind", [None, NoReturn, Awaitable[int], Coroutine[Any, Any, list[int]], Tree, object, bytes])
def test_other_result_types_are_taken(kind: Any) -> None:
    atf.App("v").task(handler(Any, kind))


def test_the_result_of_a_wrapped_async_def_is_that_of_its_coroutine() -> None:
    known = atf.App("v").task(handler(int, Awaitable[Path]))
    assert known.prepare(3).decode(b'"a"', t.JSON) == Path("a")


def test_a_models_fields_are_part_of_the_signatures_digest_and_its_name_is_not() -> None:
    def model(name: str, **fields: Any) -> Any:
        return pydantic.create_model(name, **fields)

    one, same, other = model("One", x=(int, 1)), model("One", x=(int, 2)), model("One", x=(int, 1), y=(str, "a"))
    assert taking(one).digest == taking(same).digest != taking(other).digest
    assert taking(User | Robot).digest != taking(User | None).digest


@pytest.mark.processes
def test_neither_pydantic_nor_attrs_is_imported_by_atf() -> None:
    code = "import sys, atf; atf.App('a').task(name='b')(lambda x: x).prepare({'a': [1]}); print({'pydantic', 'attr'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"
