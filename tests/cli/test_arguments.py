"""Texts as arguments, by the registered signature: on the command line, of a job, and in a table."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Optional
from uuid import UUID

import msgspec
import pytest

import atf as sdk
from atf.cli.arguments import Parameters, parameters_of
from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from tests.cli.conftest import Atf, FakeFrontend

app = sdk.App("shop")
Zip = NewType("Zip", str)


class Size(enum.Enum):
    ONE = "1"
    TWO = "2"


class Level(enum.IntEnum):
    LOW = 1


class Permission(enum.IntFlag):
    READ = 1
    WRITE = 2


@dataclass
class Box2:
    zip: str


class Box:
    def __repr__(self) -> str:
        return "<a box>"


@app.task(aliases={"postcode": "zip"})
def send(
    zip: str,
    maybe: str | None = None,
    old: Optional[str] = None,  # noqa: UP045  as many write it
    noted: Annotated[str, msgspec.Meta(max_length=9)] = "",
    one: Literal["1", "2"] = "1",
    number: Literal[1, 2] = 1,
    either: int | str = 0,
    alias: Zip = Zip(""),
    size: Size = Size.ONE,
    level: Level = Level.LOW,
    day: date | None = None,
    key: UUID | None = None,
    price: Decimal | None = None,
    names: list[str] = [],  # noqa: B006
    urls: str | list[str] = "",
    told: dict[str, int] | None = None,
    flag: bool = False,
    count: int | None = 0,
    share: float = 0.5,
    what: Any = Box(),  # noqa: B008
    at: datetime | None = None,
    lasts: timedelta = timedelta(),
    blob: bytes = b"",
    pairs: list[tuple[str, int]] = [],  # noqa: B006
    points: list[tuple[int, ...]] = [],  # noqa: B006
    prices: dict[str, Decimal | None] = {},  # noqa: B006
    boxes: list[Box2] = [],  # noqa: B006
    may: Permission = Permission.READ,
) -> Annotated[dict[str, int], "is (not) python >>>"]:
    return {}


def lambda_info(signature: str) -> f.LambdaInfo:
    return f.LambdaInfo(spec=f.LambdaSpec(name="shop/send", signature=signature))


def takes() -> Parameters:
    found = parameters_of(send.spec().signature)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("zip", "75001", "75001"),
        ("zip", "null", "null"),
        ("zip", '"75001"', '"75001"'),
        ("zip", "[1]", "[1]"),
        ("zip", "NaN", "NaN"),
        ("zip", "", ""),
        ("postcode", "75001", "75001"),
        ("maybe", "75001", "75001"),
        ("maybe", "true", "true"),
        ("old", "1e5", "1e5"),
        ("noted", "007", "007"),
        ("one", "1", "1"),
        ("number", "1", 1),
        ("either", "5", "5"),
        ("alias", "75001", "75001"),
        ("size", "2", "2"),
        ("level", "1", 1),
        ("day", "2030-01-31", "2030-01-31"),
        ("key", "12345678123456781234567812345678", "12345678123456781234567812345678"),
        ("price", "1.10", "1.10"),
        ("names", '["1", "2"]', ["1", "2"]),
        ("urls", "http://a", "http://a"),
        ("urls", '["http://a", "http://b"]', ["http://a", "http://b"]),
        ("urls", "[not a list", "[not a list"),
        ("told", '{"a": 1}', {"a": 1}),
        ("told", "null", None),
        ("flag", "true", True),
        ("count", "12", 12),
        ("count", "null", None),
        ("share", "1", 1),
        ("what", "75001", 75001),
        ("what", "cat.jpg", "cat.jpg"),
        ("day", "null", None),
        ("price", "null", None),
        ("at", "2030-01-31T08:00:00+02:00", "2030-01-31T08:00:00+02:00"),
        ("lasts", "PT90S", "PT90S"),
        ("blob", "YWJj", "YWJj"),
        ("urls", "[1]", "[1]"),
        ("pairs", '[["a", 1]]', [["a", 1]]),
        ("points", "[[1, 2, 3], []]", [[1, 2, 3], []]),
        ("prices", '{"a": "1.10", "b": 2, "c": null}', {"a": "1.10", "b": 2, "c": None}),
        ("boxes", '[{"zip": "1"}]', [{"zip": "1"}]),
        ("may", "3", 3),
    ],
)
def test_a_text_is_what_its_argument_takes(name: str, text: str, value: Any) -> None:
    found = takes().read(name, text)
    assert (found, type(found)) == (value, type(value))
    if name not in {"zip", "postcode"}:
        send.decode(json.dumps({"zip": "1", name: found}).encode(), t.JSON)  # the handler takes it, too


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("flag", "yes", "argument 'flag': expected bool, got 'yes'; write true or false"),
        ("count", "1.5", "argument 'count': expected int | None, got '1.5'; write a whole number"),
        ("count", "true", "argument 'count': expected int"),
        ("share", "NaN", "argument 'share': expected float, got 'NaN'; write a number"),
        ("names", "75001", "argument 'names': expected list[str], got '75001'; write a JSON list"),
        ("told", "[]", "write a JSON object"),
        ("one", "3", "argument 'one': expected Literal['1', '2'], got '3'"),
        ("number", "true", "argument 'number': expected Literal[1, 2], got 'true'"),
        ("what", "NaN", "NaN is no JSON number"),
        ("names", "[75001]", "argument 'names' at [0]: expected str, got 75001; write \"75001\""),
        ("names", '["a", null]', "argument 'names' at [1]: expected str, got None"),
        ("points", "[[1], [2, 3.0]]", "argument 'points' at [1][1]: expected int, got 3.0; write a whole number"),
        ("told", '{"a": "1"}', "argument 'told' at ['a']: expected int, got '1'; write a whole number"),
        (
            "prices",
            '{"a": "x"}',
            "argument 'prices' at ['a']: expected decimal.Decimal | None, got 'x'; write a number",
        ),
        ("count", "1.0", "argument 'count': expected int | None, got '1.0'; write a whole number"),
        ("day", "31.1.2030", "expected datetime.date | None, got '31.1.2030'; write a date, such as 2030-01-31"),
        ("at", "tomorrow", "write an instant, such as 2030-01-31T08:00:00Z"),
        ("lasts", "5m", "write a duration, such as PT90S"),
        ("key", "17", "expected uuid.UUID | None, got '17'; write a UUID"),
        ("blob", "a", "write base64"),
    ],
)
def test_a_text_that_its_argument_does_not_take(name: str, text: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        takes().read(name, text)
    assert says in str(caught.value)


def test_a_signature_is_registered_without_names_that_only_its_code_explains() -> None:
    signature = send.spec().signature
    assert "alias: str = ''" in signature
    assert "size: Literal['1', '2'] = '1'" in signature
    assert "level: Literal[1] = 1" in signature
    assert "noted: str = ''" in signature
    assert "what: Any = ..." in signature
    assert signature.endswith("-> dict[str, int]  # aliases: postcode = zip")


def test_signatures_of_other_programs() -> None:
    found = parameters_of("(a: 'Optional[str]', b: Annotated[str, <object at 0x7>] = 1)")
    assert found is None
    found = parameters_of("(a: 'typing.Optional[str]', b: photos.Size = 1, c: \"Literal['1']\" = '1') -> <class 'x'>")
    assert found is not None
    assert [found.read(name, "1") for name in "abc"] == ["1", 1, "1"]


def test_schedule_reads_arguments_by_the_signature(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.lambdas = [lambda_info(send.spec().signature)]
    assert atf("schedule", "shop/send", "-a", "zip=75001", "-a", "flag=true", "-a", "what={}").code == 0
    assert json.loads(frontend.asked[0].spec.payload) == {"zip": "75001", "flag": True, "what": {}}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-a", "zpi=75001"], "the lambda has no argument 'zpi'; did you mean 'zip'? It takes zip, maybe"),
        (["-a", "zip=1", "-a", "nose=1"], "no argument 'nose'"),
        (["-a", "flag=true"], "argument 'zip' is missing"),
        ([], "argument 'zip' is missing"),
        (["-a", "zip=1", "-a", "flag=yes"], "argument 'flag': expected bool"),
        (["--payload", '{"zpi": 1}'], "did you mean 'zip'?"),
        (["--payload", '{"zip": 75001}'], "argument 'zip': expected str, got 75001; write \"75001\""),
    ],
)
def test_arguments_that_the_lambda_does_not_take(atf: Atf, frontend: FakeFrontend, words: list[str], says: str) -> None:
    frontend.lambdas = [lambda_info(send.spec().signature)]
    for command in (["schedule", "shop/send"], ["job", "schedule", "shop/j", "shop/send", "@daily"]):
        ran = atf(*command, *words)
        assert ran.code == 2
        assert says in ran.err
    assert frontend.asked == []


def test_a_lambda_that_is_not_registered_is_said(
    atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def list_lambdas(request: f.ListLambdasRequest, **_: Any) -> f.ListLambdasReply:
        raise sdk.UnknownLambda(f"no lambda {getattr(request, 'lambda')!r} is registered")

    monkeypatch.setattr(frontend, "list_lambdas", list_lambdas)
    ran = atf("schedule", "shop/sned", "-a", "zip=75001")
    assert (ran.code, ran.err) == (3, "atf: no lambda 'shop/sned' is registered\n")
    assert frontend.asked == []


def test_a_cell_of_a_table_is_read_in_the_same_way() -> None:
    from atf.cli.batch.rows import rows

    table = ["zip,flag,urls\n", '75001,true,"[""a""]"\n', "1e5,,b\n"]
    assert [row for _, row in rows(table, "csv", "shop/send", takes())] == [
        {"zip": "75001", "flag": True, "urls": ["a"]},
        {"zip": "1e5", "urls": "b"},
    ]
    with pytest.raises(InvalidArgument, match=r"line 2: argument 'names' at \[0\]: expected str, got 1"):
        list(rows(["zip,names\n", "1,[1]\n"], "csv", "shop/send", takes()))
    with pytest.raises(InvalidArgument, match="line 2: argument 'zip': expected str, got 75001"):
        list(rows(['{"zip": "1"}\n', '{"zip": 75001}\n'], "jsonl", "shop/send", takes()))
    with pytest.raises(InvalidArgument, match="line 2: argument 'flag': expected bool, got 'yes'"):
        list(rows(["zip,flag\n", "1,yes\n"], "csv", "shop/send", takes()))


def test_raw_bytes_need_no_signature(atf: Atf, frontend: FakeFrontend) -> None:
    Path("blob").write_bytes(b"x")
    assert atf("schedule", "shop/send", "--raw", "blob").code == 0
    assert frontend.looked_up == []
