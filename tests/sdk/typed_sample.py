"""What a type checker must see in a user's program: each result as asserted, and each wrong call an error.

Never runs. Where a checker overlooked a wrong call, the comment that ignores its error would be an error itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, assert_type

import atf

app = atf.App("photos")


@app.task
def thumbnail(path: str, *, size: int = 256) -> dict[str, int]:
    return {path: size}


@app.task(max_attempts=5, backoff=atf.Backoff(1))
async def fetch(ctx: atf.Context, url: str) -> bytes:
    return url.encode()


@app.task
def count(ctx: atf.Context, number: int) -> int:
    return number


@app.task()
def anything(value: Any) -> int:
    return 1


@app.task
def something(value: object, size: int) -> int:
    return size


@app.task
def loose(ctx: atf.Context, number: int) -> dict:  # type: ignore[type-arg]  # as users write it
    return {}


@app.task(max_attempts=3)
def described(ctx: atf.Context, facts: dict[str, Any], number: int = 3) -> int:
    return number


@app.task
async def loose_async(ctx: atf.Context, number: int) -> list[Any]:
    return []


@app.task(max_attempts=3)
async def described_async(facts: dict[str, Any], number: int = 3) -> dict[str, Any]:
    return facts


async def numbers() -> AsyncIterator[int]:
    yield 3


async def good(client: atf.Client, other: atf.AsyncClient) -> None:
    assert_type(thumbnail.schedule("cat.jpg", size=128), atf.Handle[dict[str, int]])
    assert_type(thumbnail.options(delay=30, priority="high").schedule("cat.jpg").result(timeout=3), dict[str, int])
    assert_type(thumbnail("cat.jpg"), dict[str, int])
    assert_type(await fetch("http://x"), bytes)
    assert_type(fetch.schedule(url="http://x"), atf.Handle[bytes])
    assert_type(await (await fetch.schedule_async("http://x")).result_async(), bytes)
    assert_type(count.schedule(3).status(), atf.Status)
    assert_type(count.schedule(3).cancel(), bool)
    assert_type(client.schedule(count.prepare(3)), atf.Handle[int])
    assert_type(client.schedule_many([count.prepare(3)]), list[atf.Handle[int]])
    assert_type(await other.schedule_many([count.prepare(3)]), list[atf.Handle[int]])
    assert_type(client.schedule("a/b", {"x": 1}, delay=3), atf.Handle[Any])
    assert_type(client.get("0-1"), atf.TaskInfo)
    assert_type(client.wait(["0-1"], timeout=3), list[atf.TaskInfo])
    assert_type(anything.schedule(3).result(), int)
    assert_type(loose.schedule(3).result(), dict[Any, Any])
    assert_type(described.schedule({}, number=4).result(), int)
    assert_type(await loose_async(3), list[Any])
    assert_type(loose_async.schedule(number=3), atf.Handle[list[Any]])
    assert_type(described_async.schedule({"a": 1}), atf.Handle[dict[str, Any]])
    assert_type(something.schedule(value=3, size=4).result(), int)
    assert_type(thumbnail.map(["a", ("b", 3)], max_attempts=3), atf.Batch[dict[str, int]])
    assert_type(fetch.map(["http://x"]).result_of("http://x"), bytes)
    assert_type(list(client.batch(count, [3]).results()), list[int])
    assert_type(await other.batch("a/b", [{"x": 1}]), atf.Batch[Any])
    assert_type(app.batch("count", [3]), atf.Batch[Any])
    assert_type(await app.batch_async("count", numbers()), atf.Batch[Any])
    assert_type((count.s(3) | fetch.s()).submit().result(), bytes)
    assert_type(count.map_s([3]).submit().result(), list[int])


def bad(client: atf.Client) -> None:
    thumbnail.schedule("cat.jpg", sise=128)  # type: ignore[call-arg]
    thumbnail.schedule()  # type: ignore[call-arg]
    thumbnail.schedule(3)  # type: ignore[arg-type]
    thumbnail.options(delay=1).schedule("a", "b")  # type: ignore[arg-type, call-arg]
    thumbnail.options(delai=1)  # type: ignore[call-arg]
    fetch.prepare(3)  # type: ignore[arg-type]
    count.schedule(None, 3)  # type: ignore[arg-type, call-arg]
    count("x")  # type: ignore[arg-type]
    client.get(3)  # type: ignore[arg-type]
    client.wait(["0-1"], timeout="x")  # type: ignore[arg-type]
    thumbnail.map(["a"], max_atempts=3)  # type: ignore[call-arg]
    thumbnail.map(3)  # type: ignore[arg-type]
    loose.schedule("3")  # type: ignore[arg-type]
    described.schedule({}, numbre=3)  # type: ignore[call-arg]
    loose_async.schedule()  # type: ignore[call-arg]
    described_async.schedule(3)  # type: ignore[arg-type]
    app.task(max_atempts=3)  # type: ignore[call-overload]
