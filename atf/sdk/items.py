"""Turns an element that a caller gives to a batch into one item: the arguments of one call.

a tuple       the arguments by position       ("cat.jpg", 128)
a mapping     the arguments by name           {"path": "cat.jpg", "size": 128}
else          the only argument               "cat.jpg"
of a program  the command line                ["convert", "cat.jpg", "cat.png"]
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import md5
from typing import Any, Final

from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b

from .payload import decode_result, encode_named, short
from .signature import Codec
from .work_items import COMMAND, digest_of, texts_of

Target = str | Callable[[Any], str]

_TARGET: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Elements(ABC):
    """The elements of a batch of one lambda."""

    name: str

    @abstractmethod
    def add(self, items: b.BatchItems, element: Any) -> int:
        """Makes an item of an element; answers how many bytes it takes, about.

        Raises:
            TypeError, InvalidArgument: the element does not fit; nothing was added.
        """

    def shown(self, element: Any) -> str:
        """An element in a message, without what nobody is to see."""
        return short(element)

    @abstractmethod
    def targeting(self, target: Target) -> Elements:
        """The same with another target."""

    def work_item_id(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        hide: Callable[[Sequence[str]], list[str]] = list,
    ) -> str:
        """That of the item with these arguments; of identical items the first one's. `hide`: what a client that encrypts makes of texts."""
        return digest_of(self.name, hide(self.texts(args, kwargs)))

    @abstractmethod
    def texts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[str]:
        """The canonical texts of these arguments."""

    def decode(self, result: bytes, encoding: int) -> Any:
        """A recorded result."""
        return decode_result(self.name, result, encoding)


class LambdaElements(Elements):
    """Of a lambda whose handler is known: elements are checked against its signature."""

    def __init__(self, name: str, codec: Codec, target: Target | None = None) -> None:
        if codec.takes_raw:
            raise TypeError(f"{name} takes raw bytes; items of a batch have JSON arguments")
        if isinstance(target, str) and target not in codec.signature.parameters:
            raise InvalidArgument(_no_argument(target, name, codec.signature.parameters))
        self.name = name
        self.decode = codec.decode_result  # type: ignore[method-assign]  # one call less for each result
        self._codec = codec
        self._target = target

    def shown(self, element: Any) -> str:
        return self._codec.short(element)

    def targeting(self, target: Target) -> LambdaElements:
        return LambdaElements(self.name, self._codec, target)

    def add(self, items: b.BatchItems, element: Any) -> int:
        given = self._given(element)
        payload, _ = self._codec.encode_bound(given)
        if self._target is None:
            items.items.add(payload=payload)
            return len(payload)
        target = self._target(element) if callable(self._target) else self._argument(given, self._target)
        items.items.add(payload=payload, target=target_text(target))
        return len(payload) + 64

    def _given(self, element: Any) -> dict[str, Any]:
        if isinstance(element, tuple):
            return self._codec.bind(element, {})
        if isinstance(element, Mapping):
            return self._codec.bind((), dict(element))
        return self._codec.bind((element,), {})

    def _argument(self, given: Mapping[str, Any], name: str) -> Any:
        return given[name] if name in given else self._codec.signature.parameters[name].default

    def texts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[str]:
        payload, _ = self._codec.encode(args, kwargs)
        return texts_of(payload)


class NamedElements(Elements):
    """Of a lambda of which the name is known, and perhaps the names of its parameters: elements are mappings."""

    def __init__(self, name: str, target: Target | None = None, parameters: Sequence[str] | None = None) -> None:
        if isinstance(target, str) and parameters is not None and target not in parameters:
            raise InvalidArgument(_no_argument(target, name, parameters))
        self.name = name
        self._target = target
        self._parameters = parameters
        self._places = {each: place for place, each in enumerate(parameters or ())}

    def targeting(self, target: Target) -> NamedElements:
        return NamedElements(self.name, target, self._parameters)

    def add(self, items: b.BatchItems, element: Any) -> int:
        given = self._given(element)
        payload, _ = encode_named(self.name, given)
        item = items.items.add(payload=payload)
        if self._target is not None:
            try:
                target = self._target(element) if callable(self._target) else given[self._target]
            except KeyError:
                del items.items[-1]
                raise InvalidArgument(
                    f"target={self._target!r}: this argument is not given; give it, also where it has a default"
                ) from None
            item.target = target_text(target)
        return len(payload) + 64

    def _given(self, element: Any) -> Mapping[str, Any]:
        if not isinstance(element, Mapping):
            raise TypeError(
                f"{short(element)}: of {self.name} the name alone is known; give arguments by name, as a mapping"
            )
        if not self._places:
            return element
        places = self._places  # identical arguments have one work-item id, in whatever order they are written
        return dict(sorted(element.items(), key=lambda each: places.get(each[0], len(places))))

    def texts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[str]:
        element = kwargs or (args[0] if len(args) == 1 else args)
        payload, _ = encode_named(self.name, self._given(element))
        return texts_of(payload)


class ProgramElements(Elements):
    """Of the lambda whose items are command lines."""

    name = COMMAND

    def __init__(self, target: Target | None = None) -> None:
        if isinstance(target, str):
            raise InvalidArgument(f"target={target!r}: a command line has no names; give what makes a text of one")
        self._target = target

    def targeting(self, target: Target) -> ProgramElements:
        return ProgramElements(target)

    def add(self, items: b.BatchItems, element: Any) -> int:
        words = self._words(element)
        target = "" if self._target is None else target_text(self._target(element))
        items.items.add(arguments=words, target=target)
        return sum(map(len, words)) * 2 + 64

    def _words(self, element: Any) -> Sequence[str]:
        if isinstance(element, str | bytes | Mapping) or not isinstance(element, Sequence) or not element:
            raise TypeError(
                f"{short(element)}: an item of {COMMAND} is a list of texts, the program first; no shell reads it"
            )
        for word in element:
            if not isinstance(word, str) or "\0" in word:
                raise TypeError(f"{short(word)}: a command line is made of texts, without zero characters")
        return element

    def texts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[str]:
        words = args[0] if len(args) == 1 and not isinstance(args[0], str) else args
        return self._words(words)


def elements_of(name: str, target: Target | None = None) -> Elements:
    """The elements of a lambda of which the name is known."""
    return ProgramElements(target) if name == COMMAND else NamedElements(name, target)


def _no_argument(target: str, name: str, parameters: Iterable[str]) -> str:
    return f"target={target!r}: {name} has no such argument; it has {', '.join(parameters)}"


def check_target(target: object) -> None:
    """Refuses what can't be a target; None is none.

    Raises:
        InvalidArgument: it is neither a name nor a function.
    """
    if target is not None and not isinstance(target, str) and not callable(target):
        raise InvalidArgument(f"target={short(target)}: give an argument's name, or what makes a text of an element")


def target_text(target: object) -> str:
    """A target as it travels: itself where it is a name of 1 to 64 of A-Z a-z 0-9 . _ -, else the md5 of its text."""
    text = target if isinstance(target, str) else str(target)
    if _TARGET.fullmatch(text):
        return text
    return md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
