"""Converts values to JSON and back: which types travel and in what form.

Owns the forms of what msgspec does not know by itself: paths are text, Pydantic models what they dump and validate, subclasses of text,
numbers and instants what they are derived from. Pydantic is never imported here: who has a model has imported it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import Annotated, Any, Final, Union, get_args, get_origin
from uuid import UUID  # noqa: TID251  the type, which makes none

import msgspec
from msgspec import inspect as mi

SCALARS: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None)})
"""What JSON holds as it is."""
_BUILTIN: Final = (*SCALARS, list, dict)
_PLAIN: Final[Mapping[type, frozenset[type]]] = {
    mi.AnyType: SCALARS,
    mi.StrType: frozenset({str}),
    mi.IntType: frozenset({int}),
    mi.FloatType: frozenset({float}),
    mi.BoolType: frozenset({bool}),
    mi.NoneType: frozenset({type(None)}),
}


class NoFormError(TypeError):
    """A form is none of the type that it should become."""


def model_class() -> Any:
    """Pydantic's BaseModel; the empty tuple, which nothing is an instance of, where nobody has imported Pydantic."""
    return getattr(sys.modules.get("pydantic"), "BaseModel", ())


# --- forms --------------------------------------------------------------------------------------------------------------


_BASES: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = (
    (PurePath, str),
    (str, str.__str__),
    (int, int),
    (float, float),
    (bytes, bytes),
    (Decimal, Decimal),
    (UUID, lambda value: UUID(int=value.int)),
    (datetime, lambda value: datetime.combine(datetime.date(value), datetime.timetz(value))),
    (date, lambda value: date(value.year, value.month, value.day)),
)
"""What a subclass of each is reduced to."""


def form_of(value: Any) -> Any:
    """What JSON holds in place of a value that msgspec does not know.

    Raises:
        TypeError: there is no form.
    """
    for base, form in _BASES if type(value) is not bool else ():  # a key that is one would become a number
        if isinstance(value, base):
            return form(value)
    if isinstance(value, model_class()):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    raise TypeError(
        f"objects of type {type(value).__name__} have no form in JSON: give what they are made of, such as text or numbers"
    )


def from_form(kind: Any, form: Any) -> Any:
    """The value of a type that msgspec does not know.

    Raises:
        NoFormError: the form is none of the type's.
        ValueError: the type's own validation refused it.
    """
    kind = get_origin(kind) or kind  # of Iterable[int]
    try:
        if isinstance(kind, _UnionOfModels):
            return kind.adapter.validate_json(ENCODER.encode(form))
        if issubclass(kind, model_class()):
            return kind.model_validate_json(ENCODER.encode(form))
    except sys.modules["pydantic"].ValidationError as error:
        said = (f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors())
        raise ValueError("; ".join(said)) from None
    if issubclass(kind, PurePath) and isinstance(form, str):
        return kind(form)
    if isinstance(form, kind):
        return form
    raise NoFormError(f"Expected `{kind.__name__}`, got `{type(form).__name__}`")


ENCODER: Final = msgspec.json.Encoder(enc_hook=form_of)


def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """What reads values of a type, as `travelling` gives it."""
    return msgspec.json.Decoder(kind, dec_hook=from_form)


# --- types --------------------------------------------------------------------------------------------------------------


class _UnionOfModels(type):
    """Stands for a union with Pydantic models in it, which msgspec can't tell apart and Pydantic can."""

    adapter: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return True  # Pydantic has made it


def travelling(kind: Any) -> Any:
    """A type as a decoder is made of it: itself, but for unions of Pydantic models.

    Raises:
        TypeError: values of it can't travel; says which part of it.
        NameError: a class in it is not there yet.
    """
    kind = _with_unions_of_models(kind)
    _check_types(mi.type_info(kind), set())
    decoder_of(kind)
    return kind


def travelling_result(kind: Any) -> Any:
    """The same of what a handler returns.

    Raises:
        TypeError, NameError: as for `travelling`.
    """
    if get_origin(kind) in {Awaitable, Coroutine}:  # of a def that returns what is awaited then
        kind = get_args(kind)[-1]
    return Any if kind in {typing.NoReturn, typing.Never} else travelling(kind)


def plain_types(kind: Any) -> frozenset[type]:
    """The classes whose own instances (not those of subclasses) arrive as what they are under a type, whatever their value."""
    return _plain(mi.type_info(kind))


def _plain(info: mi.Type) -> frozenset[type]:
    if isinstance(info, mi.UnionType):
        return frozenset().union(*map(_plain, info.types))
    if any(getattr(info, name, None) is not None for name in info.__struct_fields__):
        return frozenset()  # it has bounds
    return _PLAIN.get(type(info), frozenset())


def _check_types(info: Any, seen: set[Any]) -> None:
    if isinstance(info, mi.CustomType):
        _check_class(info.cls)
    elif isinstance(info, tuple):
        for each in info:
            _check_types(each, seen)
    elif isinstance(info, mi.Type | mi.Field):
        held = getattr(info, "cls", None)
        _check_private(held)
        if held is not None and held in seen:
            return  # it holds itself
        seen.add(held)
        for name in info.__struct_fields__:
            _check_types(getattr(info, name), seen)


def _check_private(cls: Any) -> None:
    """Refuses attrs classes with private attributes, which msgspec leaves out."""
    for each in getattr(cls, "__attrs_attrs__", ()):
        if each.name.startswith("_"):
            raise TypeError(
                f"{cls.__module__}.{cls.__qualname__}: its attribute {each.name!r} would not travel: name it without the underscore"
            )


def _check_class(cls: Any) -> None:
    if isinstance(cls, _UnionOfModels) or issubclass(cls, PurePath) or issubclass(cls, model_class()):
        return
    with contextlib.suppress(TypeError):  # a Protocol that can't be asked
        if any(issubclass(each, cls) for each in _BUILTIN):  # such as object, Iterable and Hashable
            return
    raise TypeError(
        f"{cls.__module__}.{cls.__qualname__} has no form in JSON".removeprefix("builtins.")
        + ": give what it is made of, such as text, a number, a dataclass or a list"
    )


def _with_unions_of_models(kind: Any) -> Any:
    """A type with stand-ins for the unions of Pydantic models in it."""
    origin, given = get_origin(kind), get_args(kind)
    if not given or origin is typing.Literal or not model_class():
        return kind
    if origin is Annotated:
        inner = _with_unions_of_models(given[0])
        return kind if inner is given[0] else Annotated[(inner, *kind.__metadata__)]
    union = origin in {Union, types.UnionType}
    others = [each for each in given if each is not type(None)]
    if union and len(others) > 1 and any(isinstance(each, type) and issubclass(each, model_class()) for each in others):
        stand_in: Any = _union_of_models(tuple(others))
        return Union[stand_in, None] if len(others) < len(given) else stand_in  # noqa: UP007  its class has no `|`
    made = tuple(map(_with_unions_of_models, given))
    if all(one is other for one, other in zip(made, given, strict=True)):
        return kind
    return Union[made] if union else origin[made]  # noqa: UP007  of a tuple


@functools.cache
def _union_of_models(members: Any) -> type:
    kind: Any = Union[members]  # noqa: UP007  of a tuple
    try:
        adapter = sys.modules["pydantic"].TypeAdapter(kind)
    except Exception as error:  # noqa: BLE001  of Pydantic, which may have no schema for a member
        raise TypeError(f"{kind}: beside a Pydantic model may stand what Pydantic knows: {error}") from None
    return _UnionOfModels(str(kind), (), {"adapter": adapter})


def schema_of(kind: Any) -> Any:
    """What a Pydantic model, or a union of them, reads, as its JSON schema without what is meant for people; None: it is none."""
    if isinstance(kind, _UnionOfModels):
        return _bare(kind.adapter.json_schema())
    return _bare(kind.model_json_schema()) if issubclass(kind, model_class()) else None


def _bare(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: _bare(each)
            for name, each in schema.items()
            if name not in {"title", "description", "examples", "default"}
        }
    return [_bare(each) for each in schema] if isinstance(schema, list) else schema
