"""What a handler may be: every kind of callable either works, however it is run, or is refused where it is decorated."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import operator
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import atf
from atf.testing import Harness

# --- decorators, as users write them -----------------------------------------------------------------------------------


def forwarding(fn: Callable[..., Any]) -> Any:
    """A plain def around anything; around an `async def` it returns the coroutine."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def unmarked(fn: Callable[..., Any]) -> Any:
    """The same without functools.wraps, for handlers of one parameter."""

    def wrapper(number: int) -> Any:
        return fn(number)

    return wrapper


def blocking(fn: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(fn(*args, **kwargs))

    return wrapper


def forgetful(fn: Callable[..., Any]) -> Any:
    """An `async def` that does not await what it wraps."""

    @functools.wraps(fn)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def injecting(fn: Callable[..., Any]) -> Any:
    """Gives the first argument itself, and says which are left."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(2, *args, **kwargs)

    signature = inspect.signature(fn)
    wrapper.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return wrapper


# --- handlers -----------------------------------------------------------------------------------------------------------


def twice(number: int) -> int:
    return 2 * number


async def twice_async(number: int) -> int:
    await asyncio.sleep(0.001)
    return 2 * number


def times(factor: int, number: int, *, more: int = 0) -> int:
    return factor * number + more


async def times_async(factor: int, number: int) -> int:
    await asyncio.sleep(0.001)
    return factor * number


async def twice_with_context(ctx: atf.Context, number: int) -> int:
    assert ctx.attempt == 1
    await asyncio.sleep(0.001)
    return 2 * number


class Later:
    """Something to await that is no coroutine."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __await__(self) -> Any:
        yield from asyncio.sleep(1).__await__()
        return self.number


class Times:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, number: int) -> int:
        return self.factor * number

    def method(self, number: int) -> int:
        return self.factor * number

    async def method_async(self, number: int) -> int:
        return self.factor * number

    @classmethod
    def of_class(cls, number: int) -> int:
        return 2 * number

    @staticmethod
    def of_none(number: int) -> int:
        return 2 * number


class TimesAsync(Times):
    async def __call__(self, number: int) -> int:  # type: ignore[override]
        await asyncio.sleep(0.001)
        return self.factor * number


def nested() -> Callable[..., Any]:
    factor = 2

    def inner(number: int) -> int:
        return factor * number

    return inner


WORKS: dict[str, Callable[..., Any]] = {
    "a def": twice,
    "an async def": twice_async,
    "a nested function": nested(),
    "a lambda expression": lambda number: 2 * number,
    "a lambda expression that gives a coroutine": lambda number: twice_async(number + 0),
    "a def behind a wrapper": forwarding(twice),
    "an async def behind a plain wrapper": forwarding(twice_async),
    "a wrapper that gives an argument and says so": injecting(forwarding(times)),
    "an async def behind two": forwarding(forwarding(twice_async)),
    "an async def with a context behind a plain wrapper": forwarding(twice_with_context),
    "an async def behind a wrapper without functools.wraps": unmarked(twice_async),
    "an async def that a wrapper runs by asyncio.run": blocking(twice_async),
    "an async def behind an async def that forgets to await": forgetful(twice_async),
    "what can be awaited and is no coroutine": lambda number: Later(2 * number),
    "a partial by position": functools.partial(times, 2),
    "a partial by name": functools.partial(times, factor=2, more=0),
    "a partial of a partial": functools.partial(functools.partial(times, 2), more=0),
    "a partial of an async def": functools.partial(times_async, 2),
    "a partial of an async def behind a wrapper": functools.partial(forwarding(times_async), 2),
    "an object with __call__": Times(2),
    "an object with an async __call__": TimesAsync(2),
    "a bound method": Times(2).method,
    "a bound async method": Times(2).method_async,
    "a class method": Times.of_class,
    "a static method": Times.of_none,
    "a staticmethod object": staticmethod(twice),
    "a cached function": functools.cache(twice),
    "a cached method of an object": functools.lru_cache(maxsize=3)(Times(2).method),
    "another app's lambda": atf.App("other").task(twice),
    "another app's async lambda": atf.App("other2").task(twice_with_context),
}


def decorated(handler: Callable[..., Any], **options: Any) -> Any:
    return atf.App("kinds").task(name="handler", **options)(handler)


@pytest.mark.parametrize("kind", sorted(WORKS))
def test_every_kind_of_callable_works_as_a_task(kind: str) -> None:
    app = atf.App("kinds")
    known = app.task(name="handler")(WORKS[kind])
    with Harness(app) as h:
        handle = known.schedule(number=21)
        h.advance(2)
        assert handle.result() == 42


@pytest.mark.parametrize("kind", sorted(WORKS))
def test_every_kind_of_callable_is_checked_at_the_caller_and_called_as_itself(kind: str) -> None:
    known = decorated(WORKS[kind])
    with pytest.raises(TypeError, match="missing a required argument: 'number'"):
        known.prepare()
    called = known(number=3)
    if isinstance(called, Awaitable):
        called.close() if isinstance(called, Coroutine) else None
    else:
        assert called == 6


async def test_a_plain_call_of_a_wrapped_async_def_is_its_coroutine() -> None:
    assert await decorated(forwarding(forwarding(times_async)))(2, number=3) == 6


@pytest.mark.parametrize("kind", ["a partial by position", "a bound method", "an object with __call__"])
def test_annotations_of_every_kind_are_found(kind: str) -> None:
    with pytest.raises(TypeError, match="argument 'number': Expected `int`, got `str`"):
        decorated(WORKS[kind]).prepare(number="3")


def test_what_a_wrapped_async_def_raises_is_a_failed_attempt() -> None:
    app = atf.App("kinds")

    @app.task(max_attempts=1)
    @forwarding
    async def fails() -> None:
        await asyncio.sleep(0.001)
        raise atf.Fatal("never")

    with Harness(app) as h:
        handle = fails.schedule()
        h.advance(2)
        with pytest.raises(atf.TaskFailed, match="never"):
            handle.result()


def test_a_wrapped_async_def_times_out_and_is_cancelled_like_any_other() -> None:
    app, ended = atf.App("kinds"), []

    @app.task(timeout=5, max_attempts=1)
    @forwarding
    async def lingers(name: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(name)

    with Harness(app) as h:
        late, unwanted = lingers.schedule("late"), lingers.options(timeout=None).schedule("unwanted")
        h.advance(10)
        assert ended == ["late"]
        with pytest.raises(atf.TaskFailed, match="timed out after 5 s"):
            late.result()
        unwanted.cancel()
        h.advance(20)
        assert ended == ["late", "unwanted"]
        assert unwanted.status() is atf.Status.CANCELLED


def test_a_generator_that_a_wrapper_returns_fails_with_the_way_out() -> None:
    app = atf.App("kinds")

    def numbers() -> Iterator[int]:
        yield 1

    @app.task
    def wrapper():  # type: ignore[no-untyped-def]
        return numbers()

    with Harness(app) as h:
        handle = wrapper.schedule()
        h.run_until_idle()
        with pytest.raises(atf.TaskFailed, match="returned a generator, and nothing of it has run: return a list"):
            handle.result()


# --- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (twice, "twice"),
        (forwarding(twice_async), "twice_async"),
        (functools.partial(times, 2), "times"),
        (Times(2).method, "method"),
        (functools.cache(twice), "twice"),
        (staticmethod(twice), "twice"),
        (atf.App("other").task(name="short")(twice), "twice"),
    ],
)
def test_the_name_is_that_of_the_function_that_was_written(handler: Callable[..., Any], name: str) -> None:
    assert atf.App("kinds").task(handler).name == f"kinds/{name}"


@pytest.mark.parametrize("handler", [lambda: None, Times(2), functools.partial(Times(2)), functools.partial(lambda: 1)])
def test_what_has_no_name_is_refused_with_the_way_to_give_one(handler: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r'has no name: give one, app\.task\(name="…"\)'):
        atf.App("kinds").task(handler)


def test_two_wrappers_of_one_name_are_told_of_functools_wraps() -> None:
    app = atf.App("kinds")
    app.task(unmarked(twice))
    with pytest.raises(atf.InvalidArgument, match=r"kinds/wrapper is defined twice.*@functools\.wraps"):
        app.task(unmarked(twice_async))


# --- refused ------------------------------------------------------------------------------------------------------------


class InClass:
    def method(self, number: int) -> int:
        return number

    @classmethod
    def of_class(cls, number: int) -> int:
        return number

    half = functools.partialmethod(method, 2)

    @property
    def wanted(self) -> int:
        return 1


class Yields:
    def __call__(self) -> Iterator[int]:
        yield 1


def yields() -> Iterator[int]:
    yield 1


async def yields_async() -> AsyncIterator[int]:
    yield 1


def swallowing(fn: Callable[..., Any]) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def renaming(fn: Callable[..., Any]) -> Any:
    """A decorator that takes something else than it says."""

    @functools.wraps(fn)
    def wrapper(request: dict[str, Any]) -> Any:
        return fn(**request)

    return wrapper


def by_position(fn: Callable[..., Any]) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any) -> Any:
        return fn(*args)

    return wrapper


def demanding(fn: Callable[..., Any]) -> Any:
    @functools.wraps(fn)
    def wrapper(*, factor: int, number: int, more: int) -> Any:
        return fn(factor, number, more=more)

    return wrapper


@functools.singledispatch
def dispatched(number: int) -> int:
    return number


def positional_only(number: int, /) -> int:
    return number


def context_or_none(ctx: atf.Context | None, number: int) -> int:
    return number


def any_number(*numbers: int) -> int:
    return sum(numbers)


def any_names(**numbers: int) -> int:
    return sum(numbers.values())


def no_type(number: 5) -> None:  # type: ignore[valid-type]
    return None


REFUSED: dict[str, tuple[Any, str]] = {
    "a generator": (yields, "yields is a generator; a handler returns its result, such as a list"),
    "an async generator": (yields_async, "yields_async is a generator"),
    "a partial of a generator": (functools.partial(yields), "yields is a generator"),
    "an object whose __call__ is a generator": (Yields(), "is a generator"),
    "a class": (Times, "Times is a class, and a handler is a function: write a def that makes the object"),
    "a type of Python's": (int, "int is a class"),
    "a function within a class": (InClass.method, "method is a method, and its object would have to travel"),
    "a classmethod object": (InClass.__dict__["of_class"], "is a classmethod, which needs a class"),
    "a property": (InClass.__dict__["wanted"], "is a property, which needs a class or an object"),
    "a partialmethod": (functools.partialmethod(twice, 2), "is a partialmethod"),
    "a partialmethod of a class": (InClass.half, "is a partialmethod"),
    "a mock": (Mock(), r"'args' is \*args"),
    "a context that may be None": (context_or_none, "annotate the context 'ctx' as atf.Context alone"),
    "a cached async def": (functools.cache(twice_async), "keep the coroutine of an async def, which can be awaited"),
    "a wrapped cached async def": (forwarding(functools.cache(twice_async)), "keep the coroutine"),
    "a single dispatch": (dispatched, "singledispatch goes by an argument's position"),
    "positional-only": (positional_only, "'number' is positional-only; arguments travel by name"),
    "*args": (any_number, r"'numbers' is \*args"),
    "**kwargs": (any_names, r"'numbers' is \*\*kwargs"),
    "a wrapper that hides the parameters": (
        swallowing(twice),
        r"'args' is \*args;.*give its wrapper @functools\.wraps",
    ),
    "a wrapper with other parameters": (
        renaming(twice),
        r"wrapper takes \(request\).*, but by functools\.wraps it says that it takes \(number\): missing a required argument: 'request'",
    ),
    "a wrapper that takes positions alone": (by_position(twice), r"wrapper takes \(\*args\).*unexpected keyword"),
    "a wrapper that needs what has a default": (demanding(times), "wrapper takes .*missing a required.*'more'"),
    "a partial that says it takes all": (functools.update_wrapper(functools.partial(times, 2), times), "wrapper takes"),
    "a builtin": (len, "positional-only"),
    "a builtin without a signature": (max, "no signature found for builtin.*Decorate a def that calls it"),
    "a function in C": (time.sleep, "no signature|positional-only"),
    "a getter": (operator.itemgetter(1), "args|positional-only|signature"),
    "no function": ("twice", "options by name"),
    "an annotation that is no type": (no_type, "lambda kinds/handler: .*annotation|Type"),
    "a context manager": (contextlib.nullcontext(), "options by name"),
}


@pytest.mark.parametrize("kind", sorted(REFUSED))
def test_what_cannot_be_a_handler_is_refused_at_the_decorator_with_the_cause(kind: str) -> None:
    handler, says = REFUSED[kind]
    with pytest.raises(TypeError, match=says):
        atf.App("kinds").task(name="handler")(handler)


def test_a_coroutine_in_place_of_its_function_is_refused() -> None:
    with pytest.raises(TypeError, match="twice_async is a coroutine: give the function itself, without calling it"):
        atf.App("kinds").task(twice_async(3))  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", ["an async def", "a partial of an async def", "an object with an async __call__"])
def test_what_is_async_cannot_be_isolated(kind: str) -> None:
    with pytest.raises(atf.InvalidArgument, match="isolate=True is for a def"):
        decorated(WORKS[kind], isolate=True)
