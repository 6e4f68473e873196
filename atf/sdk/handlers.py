"""Decides what may be a handler, and reads a callable's name, parameters and types.

A handler is called with its arguments by name, in a process that has imported the code which made it. Callables that can't work so
are refused where they are decorated, with the reason and the way out.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Final

_REFUSED: Final[dict[Any, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "*args",
    inspect.Parameter.VAR_KEYWORD: "**kwargs",
    inspect.Parameter.POSITIONAL_ONLY: "positional-only",
}
_DESCRIPTORS: Final = (classmethod, property, functools.partialmethod, functools.singledispatchmethod)
_CACHE: Final = type(functools.cache(lambda: None))


def check_handler(fn: object) -> None:
    """Refuses what can't be a handler.

    Raises:
        TypeError: it is none; says why, and what to write.
    """
    shown = _shown(fn)
    if _descriptor(fn):
        raise TypeError(
            f"{shown} is a {_descriptor(fn)}, which needs a class or an object, and these don't travel: decorate a function"
        )
    if inspect.iscoroutine(fn):
        fn.close()
        raise TypeError(f"{shown} is a coroutine: give the function itself, without calling it")
    if not callable(fn):
        raise TypeError(f"@app.task takes its options by name, such as @app.task(max_attempts=5); got {fn!r}")
    if isinstance(fn, type):
        raise TypeError(f"{shown} is a class, and a handler is a function: write a def that makes the object")
    if _has_code(inspect.isgeneratorfunction, fn) or _has_code(inspect.isasyncgenfunction, fn):
        raise TypeError(f"{shown} is a generator; a handler returns its result, such as a list of what it would yield")
    if isinstance(getattr(fn, "registry", None), types.MappingProxyType) and hasattr(fn, "dispatch"):
        raise TypeError(
            f"{shown}: functools.singledispatch goes by an argument's position, and arguments travel by name: decorate a def that calls it"
        )
    for each in _layers(fn):
        if isinstance(each, _CACHE) and is_async(each.__wrapped__):
            raise TypeError(
                f"{shown}: functools.cache would keep the coroutine of an async def, which can be awaited once: cache what it awaits"
            )


def _descriptor(fn: object) -> str:
    """What it is if it is nothing without a class; empty: it is no such thing."""
    if inspect.isfunction(fn) and any(hasattr(fn, mark) for mark in ("_partialmethod", "__partialmethod__")):
        return "partialmethod"  # taken from its class, which makes a function of it
    return type(fn).__name__ if isinstance(fn, _DESCRIPTORS) else ""


def is_async(fn: object) -> bool:
    """Whether a call of it is known to give a coroutine: an `async def`, a partial of one, an object with such a `__call__`."""
    # The mark is how libraries say so before Python 3.12.
    return _has_code(inspect.iscoroutinefunction, fn) or getattr(_inner(fn), "_is_coroutine", None) is not None


def name_of(fn: object) -> str:
    """The name under which it was written.

    Raises:
        TypeError: it has none.
    """
    name = getattr(_inner(fn), "__name__", "")
    if not isinstance(name, str) or name in {"", "<lambda>"}:
        raise TypeError(f'{_shown(fn)} has no name: give one, app.task(name="…")(…)')
    return name


def inner_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that was written: what a partial, a chain of decorators, or an object with `__call__` calls in the end."""
    inner = _inner(fn)
    if hasattr(inner, "__wrapped__"):
        return inner_function(inner.__wrapped__)
    if inspect.isroutine(inner) or isinstance(inner, type):
        return inner
    call: Callable[..., Any] = type(inner).__call__
    return call


def signature_of(fn: Callable[..., Any], name: str) -> inspect.Signature:
    """A handler's parameters, the context among them.

    Args:
        fn: the handler.
        name: of the lambda, for messages.

    Raises:
        TypeError: it has none that Python knows of.
    """
    try:
        return inspect.signature(fn)
    except (ValueError, TypeError) as error:
        raise TypeError(f"lambda {name}: {error}. Decorate a def that calls it") from None


def hints_of(fn: Callable[..., Any], name: str) -> dict[str, Any]:
    """The types of its parameters and of its result ("return"), by name.

    Args:
        fn: the handler.
        name: of the lambda, for messages.

    Raises:
        NameError: a class is not there, or not yet.
        TypeError: an annotation is no type.
    """
    inner = _inner(fn)
    written = inner_function(fn)
    try:
        hints = typing.get_type_hints(inner if inspect.isfunction(inner) else written, include_extras=True)
    except (AttributeError, SyntaxError, TypeError, ValueError) as error:
        raise TypeError(f"lambda {name}: an annotation of its handler is no type: {error}") from None
    for each in inspect.signature(fn).parameters.values():  # what a decorator says by __signature__ alone
        if each.annotation is not each.empty and not isinstance(each.annotation, str):
            hints.setdefault(each.name, each.annotation)
    return hints


def check_parameters(fn: Callable[..., Any], name: str, parameters: list[inspect.Parameter], *, context: bool) -> None:
    """Refuses parameters whose arguments can't be given by name.

    Args:
        fn: the handler.
        name: of the lambda, for messages.
        parameters: the handler's, without the context.
        context: whether it takes one.

    Raises:
        TypeError: names the parameter, or the decorator's own parameters that are in the way.
    """
    written = inner_function(fn)
    if parameters and parameters[0].name in {"self", "cls"} and _in_class(written) and not inspect.ismethod(_inner(fn)):
        raise TypeError(
            f"lambda {name}: {written.__qualname__} is a method, and its object would have to travel: decorate a function, or a staticmethod"
        )
    for each in parameters:
        if each.kind in _REFUSED:
            hidden = ". If a decorator hides them, give its wrapper @functools.wraps" if is_nested(written) else ""
            raise TypeError(
                f"lambda {name}: parameter {each.name!r} is {_REFUSED[each.kind]}; arguments travel by name, so each needs a parameter"
                f" of its own. Take a list or a dict instead{hidden}"
            )
    layer = fn
    while _check_layer(layer, name, parameters, context=context):
        layer = layer.__wrapped__  # type: ignore[attr-defined]  # of functools.wraps


def _check_layer(layer: Any, name: str, parameters: list[inspect.Parameter], *, context: bool) -> bool:
    """A decorator's wrapper must take what it says that it takes. Whether there is one below it that must, too."""
    wraps = hasattr(layer, "__wrapped__")
    if not wraps and not isinstance(layer, functools.partial):
        return False
    try:
        own = inspect.signature(layer, follow_wrapped=False)
    except (ValueError, TypeError):  # of a wrapper in C, such as functools.cache's
        return wraps
    first = (None,) if context else ()
    try:
        for given in (parameters, [each for each in parameters if each.default is each.empty]):
            own.bind(*first, **{each.name: None for each in given})
    except TypeError as error:
        takes = ", ".join(each.name for each in parameters)
        raise TypeError(
            f"lambda {name}: a decorator's wrapper takes {own}, but by functools.wraps it says that it takes ({takes}): {error}. Arguments"
            " travel by name: let the wrapper take (*args, **kwargs), or leave functools.wraps out"
        ) from None
    return (
        wraps and not isinstance(layer, functools.partial) and not inspect.ismethod(layer)
    )  # those have given some already


def _inner(fn: object) -> Any:
    """Itself, or what a partial is of."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _layers(fn: object) -> list[Any]:
    """Each decorator's wrapper that says by functools.wraps what it wraps, the outermost first."""
    layers: list[Any] = []
    inner = _inner(fn)
    while hasattr(inner, "__wrapped__") and len(layers) < 100:  # a __getattr__ of the user's may answer for ever
        layers.append(inner)
        inner = _inner(inner.__wrapped__)
    return layers


def _has_code(kind: Callable[[Any], bool], fn: object) -> bool:
    """Whether calling it runs code of a kind."""
    inner = _inner(fn)
    return kind(inner) or (not inspect.isroutine(inner) and kind(getattr(type(inner), "__call__", None)))  # noqa: B004  the function is asked for


def is_nested(fn: Callable[..., Any]) -> bool:
    """Whether it was written within another function, as a decorator's wrapper is."""
    return "<locals>." in getattr(fn, "__qualname__", "")


def _in_class(fn: Callable[..., Any]) -> bool:
    """Whether it was written in the body of a class."""
    parts = str(getattr(fn, "__qualname__", "")).split(".")
    return len(parts) > 1 and parts[-2] != "<locals>"


def _shown(fn: object) -> str:
    inner = _inner(fn)
    name = getattr(inner, "__qualname__", None) or getattr(getattr(inner, "__func__", None), "__qualname__", None)
    return str(name or repr(fn))
