"""Sixty calls as users write them, half of them wrong; beside each what is right.

test_calls_agree.py has mypy, pyright and ATF itself judge each line of `calls`, one by one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypedDict
from uuid import UUID

import pydantic

import atf

app = atf.App("calls")
NOON = datetime(2031, 1, 2, 12, tzinfo=UTC)
ID = UUID(int=7)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    id: int
    lines: list[str]


class User(pydantic.BaseModel):
    name: str


class Row(TypedDict):
    id: UUID


@app.task
def thumbnail(path: str, *, size: int = 256) -> dict[str, int]:
    return {path: size}


@app.task(max_attempts=5)
async def fetch(ctx: atf.Context, url: str, wait: float = 3.0) -> bytes:
    return url.encode()


@app.task
def count(ctx: atf.Context, number: int) -> int:
    return number


@app.task
def report(ctx: atf.Context, day: str, limits: dict[str, Any] | None = None) -> dict[str, Any]:
    return {day: limits}


@app.task
def ship(order: Order, at: datetime, to: UUID | None = None) -> None: ...


@app.task
def tag(names: list[str], weights: dict[str, float] | None = None) -> list[str]:
    return names


@app.task
def paint(colour: Colour, places: tuple[int, ...] = (), *, how: Literal["thin", "thick"] = "thin") -> set[int]:
    return set(places)


@app.task
def save(path: Path, user: User, price: Decimal = Decimal(0)) -> Path:
    return path


@app.task
def keep(row: Row, raw: bytes = b"", seen: set[int] | None = None) -> Row:
    return row


def calls() -> None:
    thumbnail.schedule("cat.jpg")  # right
    thumbnail.schedule("cat.jpg", size=128)  # right
    thumbnail.prepare(path="cat.jpg")  # right
    thumbnail.options(delay=30, priority="high").schedule("cat.jpg")  # right
    thumbnail.options(delay=timedelta(minutes=5)).prepare("cat.jpg")  # right
    thumbnail.options(at=NOON, labels={"a": "b"}).prepare("cat.jpg")  # right
    thumbnail("cat.jpg", size=3)  # right
    fetch.schedule("http://x")  # right
    fetch.schedule(url="http://x", wait=1.5)  # right
    fetch.prepare("http://x", 3)  # right
    count.schedule(3)  # right
    report.schedule("monday", limits={"a": [1, None]})  # right
    count(3)  # right
    count.options(timeout=None, max_attempts=1).prepare(3)  # right
    ship.schedule(Order(1, ["a"]), NOON)  # right
    ship.prepare(Order(id=1, lines=[]), at=NOON, to=ID)  # right
    ship.prepare(Order(1, []), NOON, None)  # right
    tag.schedule(["a", "b"])  # right
    tag.prepare([], {"a": 1.5})  # right
    tag.prepare(names=["a"], weights=None)  # right
    paint.schedule(Colour.RED)  # right
    paint.prepare(Colour.RED, (1, 2), how="thick")  # right
    paint.prepare(colour=Colour.RED, places=())  # right
    save.schedule(Path("a"), User(name="b"))  # right
    save.prepare(path=Path("a"), user=User(name="b"), price=Decimal("1.5"))  # right
    keep.schedule({"id": ID})  # right
    keep.prepare({"id": ID}, b"\x00", {1, 2})  # right
    app.task(name="other", max_attempts=3)(len_of)  # right
    atf.Backoff(1, factor=2, max=60)  # right
    thumbnail.options(backoff=atf.Backoff(1), unique=atf.Unique("a", window=60)).prepare("b")  # right

    thumbnail.schedule()  # wrong: an argument is missing
    thumbnail.schedule(3)  # wrong: a number for a text
    thumbnail.schedule("cat.jpg", 128)  # wrong: by name alone
    thumbnail.schedule("cat.jpg", sise=128)  # wrong: no such parameter
    thumbnail.schedule("cat.jpg", path="cat.jpg")  # wrong: twice
    thumbnail.prepare(b"cat.jpg")  # wrong: bytes for a text
    thumbnail.prepare(Path("cat.jpg"))  # wrong: a path for a text
    thumbnail.prepare("cat.jpg", size="128")  # wrong: a text for a number
    thumbnail.prepare("cat.jpg", size=1.5)  # wrong: a fraction for a whole number
    thumbnail.prepare("cat.jpg", size=None)  # wrong: nothing for a number
    thumbnail.options(delai=1)  # wrong: no such option
    thumbnail.options(delay=1).prepare("a", "b")  # wrong: too many
    fetch.prepare(ID)  # wrong: an id for a text
    fetch.prepare("http://x", wait="3")  # wrong: a text for a number
    count.schedule(None, 3)  # wrong: the context is not the caller's
    report.schedule(1)  # wrong: a number for a text
    ship.prepare({"id": 1, "lines": []}, NOON)  # wrong: a mapping for an order
    ship.prepare(Order(1, []), "2031-01-02T12:00:00Z")  # wrong: a text for an instant
    ship.prepare(Order(1, []), NOON.date())  # wrong: a day for an instant
    ship.prepare(Order(1, []), NOON, str(ID))  # wrong: a text for an id
    tag.prepare(("a", "b"))  # wrong: a tuple for a list
    tag.prepare("ab")  # wrong: a text for a list
    tag.prepare(["a", ID])  # wrong: an id for a text in it
    tag.prepare([], {1: 1.5})  # wrong: a number for a key
    paint.prepare("red")  # wrong: a text for a colour
    paint.prepare(Colour.RED, how="thicker")  # wrong: none of the two
    save.prepare("a", User(name="b"))  # wrong: a text for a path
    save.prepare(Path("a"), {"name": "b"})  # wrong: a mapping for a user
    keep.prepare({"id": str(ID)})  # wrong: a text for an id
    app.task(max_atempts=3)  # wrong: no such option


def len_of(text: str) -> int:
    return len(text)
