"""Keeps an app's hooks: what runs when a worker process starts and stops, and around each run. Checks them, and holds their order."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, NamedTuple

from .context import Context
from .handlers import inner_function, is_async

WorkerHookFunction = Callable[[], object]
"""A `def` or an `async def` without parameters; what it returns is ignored."""
AroundRunFunction = Callable[
    [Context],
    Iterator[Any] | AsyncIterator[Any] | AbstractContextManager[Any] | AbstractAsyncContextManager[Any],
]
"""A generator function with one `yield`, or what makes a context manager."""

_CONTEXT: Final = object()


class WorkerHook(NamedTuple):
    """One hook of a worker process.

    Attributes:
        name: for messages, such as "@app.on_worker_start shop.connect".
        call: runs it; an async one gives a coroutine.
        is_async: whether it is an `async def`.
    """

    name: str
    call: WorkerHookFunction
    is_async: bool


class AroundRun(NamedTuple):
    """One hook around runs.

    Attributes:
        name: for messages, such as "@app.around_run shop.traced".
        manager: makes the context manager of a run.
        is_async: whether that is an asynchronous one.
    """

    name: str
    manager: Callable[[Context], Any]
    is_async: bool


def worker_hook(kind: str, fn: Any) -> WorkerHook:
    """A worker hook.

    Args:
        kind: "on_worker_start" or "on_worker_stop".
        fn: what was decorated.

    Raises:
        TypeError: it can't be one; says why, and what to write.
    """
    name = _name(kind, fn)
    if _is(fn, inspect.isgeneratorfunction) or _is(fn, inspect.isasyncgenfunction):
        raise TypeError(f"{name} is a generator: write a def or an async def; @app.around_run takes generators")
    _check_call(fn, (), f"{name}: a worker hook is called without arguments")
    return WorkerHook(name, fn, is_async(fn))


def around_run(fn: Any) -> AroundRun:
    """A hook around runs.

    Raises:
        TypeError: it can't be one; says why, and what to write.
    """
    name = _name("around_run", fn)
    _check_call(fn, (_CONTEXT,), f"{name}: the hook is called with the context alone, ctx: atf.Context")
    if inspect.isgeneratorfunction(fn):
        return AroundRun(name, contextlib.contextmanager(fn), is_async=False)
    if inspect.isasyncgenfunction(fn):
        return AroundRun(name, contextlib.asynccontextmanager(fn), is_async=True)
    if is_async(fn):
        raise TypeError(f"{name} is an async def without a yield: write one, around which the run happens")
    if _is(fn, inspect.isasyncgenfunction) or (isinstance(fn, type) and not hasattr(fn, "__enter__")):
        return AroundRun(name, fn, is_async=True)
    return AroundRun(name, functools.partial(_manager, name, fn), is_async=False)


def _manager(name: str, fn: Callable[[Context], Any], ctx: Context) -> Any:
    made = fn(ctx)
    if not hasattr(made, "__enter__"):
        raise TypeError(
            f"{name} returned {type(made).__name__}, which is no context manager: write a yield, around which the run happens"
        )
    return made


def _name(kind: str, fn: Any) -> str:
    if not callable(fn):
        raise TypeError(f"@app.{kind} decorates a function, and takes no options; got {fn!r}")
    written = fn if isinstance(fn, type) else inner_function(fn)
    return f"@app.{kind} {getattr(written, '__module__', '?')}.{getattr(written, '__qualname__', repr(fn))}"


def _is(fn: Any, kind: Callable[[Any], bool]) -> bool:
    """Whether it is of a kind, or wraps what is, as @contextlib.contextmanager does."""
    return kind(inspect.unwrap(fn))


def _check_call(fn: Any, arguments: tuple[Any, ...], rule: str) -> None:
    try:
        inspect.signature(fn).bind(*arguments)
    except ValueError:  # it is written in C, and says nothing of its parameters
        return
    except TypeError as error:
        raise TypeError(f"{rule}; {error}") from None
