from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

import atf
from atf import Context as TheContext

app = atf.App("sig")


@app.task
def plain(path: str, size: int = 1, *, crop: bool = False) -> str:
    """Says what it was given."""
    return f"{path} {size} {crop}"


@app.task
def with_context(ctx: atf.Context, number: int) -> str:
    return f"{ctx.lambda_name} {ctx.attempt} {ctx.cancelled} {number}"


@app.task(max_attempts=2)
async def asynchronous(it: TheContext, number: int) -> int:
    it.progress({"done": number})
    return number + 1


@app.task
def forward(later: Later) -> int:
    return later.x


@app.task
def forward_with_context(ctx: atf.Context, later: Later) -> int:
    return later.x


class Later(msgspec.Struct):
    x: int = 5


def test_a_lambda_is_still_the_function_it_was() -> None:
    assert plain("a", crop=True) == "a 1 True"
    assert plain.__doc__ == "Says what it was given."
    assert plain.__name__ == "plain"
    assert plain.fn("b") == "b 1 False"


def test_a_plain_call_of_a_handler_with_a_context_gets_a_local_one() -> None:
    assert with_context(3) == "sig/with_context 1 False 3"


async def test_a_plain_call_of_an_async_handler_is_a_coroutine() -> None:
    assert await asynchronous(3) == 4


def test_the_context_is_found_by_its_annotation_and_hidden_from_callers() -> None:
    found = [(each.takes_context, each.is_async) for each in (plain, with_context, asynchronous)]
    assert found == [(False, False), (True, False), (True, True)]
    assert list(inspect.signature(with_context).parameters) == ["number"]


def test_an_app_knows_its_lambdas_by_full_name() -> None:
    assert app.lambdas["sig/plain"] is plain
    with pytest.raises(TypeError):
        app.lambdas["sig/other"] = plain  # type: ignore[index]


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, r"sig/plain\(\): missing a required argument: 'path'"),
        (("a",), {"sise": 2}, r"sig/plain\(\): got an unexpected keyword argument 'sise'"),
        (("a",), {"path": "b"}, r"sig/plain\(\): multiple values for argument 'path'"),
        (
            ("a", 1, True),
            {},
            r"sig/plain\(\) takes 2 positional arguments \(path, size\), 3 were given; number 3 is True",
        ),
        ((1,), {}, r"sig/plain\(\): argument 'path': Expected `str`, got `int`"),
        (("a",), {"size": "big"}, r"sig/plain\(\): argument 'size': Expected `int`, got `str`"),
        (("a",), {"crop": None}, r"sig/plain\(\): argument 'crop': Expected `bool`, got `null`"),
    ],
)
def test_a_wrong_call_fails_at_the_caller_and_names_argument_and_lambda(args: Any, kwargs: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        plain.schedule(*args, **kwargs)


def test_a_context_is_nothing_a_caller_can_give() -> None:
    with pytest.raises(TypeError, match="sig/with_context"):
        with_context.prepare(None, 3)  # type: ignore[arg-type, call-arg]


def test_a_type_that_is_never_found_is_named() -> None:
    def handler(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    known: Any = atf.App("sig2").task(handler)

    with pytest.raises(TypeError, match=r"sig2/handler: name 'Missing' is not defined.*TYPE_CHECKING"):
        known.prepare(1)


def variadic(*paths: str) -> None: ...
def keywords(**options: str) -> None: ...
def positional(path: str, /) -> None: ...
def late_context(path: str, ctx: atf.Context) -> None: ...
def union(path: list[int] | tuple[int, int]) -> None: ...
def generator() -> Iterator[int]:
    yield 1


async def asynchronous_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (variadic, r"'paths' is \*args"),
        (keywords, r"'options' is \*\*kwargs"),
        (positional, "'path' is positional-only"),
        (late_context, "first parameter; 'ctx' is not"),
        (union, "parameter 'path': Type unions"),
        (generator, "generator"),
        (asynchronous_generator, "generator"),
    ],
)
def test_a_signature_that_cannot_travel_is_refused_at_the_decorator(handler: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        atf.App("bad").task(handler)


def test_the_decorator_says_when_options_are_given_by_position() -> None:
    with pytest.raises(TypeError, match="options by name"):
        app.task(5)  # type: ignore[call-overload]


def test_a_type_defined_further_down_is_found_at_the_first_call() -> None:
    assert (forward.takes_context, forward_with_context.takes_context) == (False, True)
    assert forward.decode(b'{"later":{"x":7}}', 0) == {"later": Later(x=7)}
