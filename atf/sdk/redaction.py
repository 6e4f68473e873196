"""Keeps the values of redacted arguments (`@app.task(redact=["password"])`) from everything that people read.

Every place where a payload or a text about a run is shown goes through one of two functions here: `redacted_payload` for payloads, a
`Redactor` for texts such as error messages, progress and lines of logs. Call it before a text is cut: half a password is one, too.

- A value of at least 4 characters is replaced wherever it stands, as it is or as repr, JSON, URLs, HTML and base64 write it; of a list, a dict or an
  object, each value in it as well. Of a text over several lines each longer line counts by itself; a number counts only as a whole one.
- A shorter value, a bool and None are replaced only where they stand as that argument: `pin=12`, `"pin": 12`, `pin is 12`. So are those in a
  mapping or an object, where they stand as that key: `"cvc": 737`.
- Of a value of 24 characters and more 12 of its beginning or end are enough, since messages cut long values.
- Where arguments hold more than 1,000 values, the whole text is replaced.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t

from .payload import FAILS, short
from .values import form_of
from .written_forms import MOST_VALUES, forms_of, json_forms, leaves_of, whole_forms

MASK: Final = "[redacted]"
"""What stands in a value's place; as a payload it is JSON text."""
LEAST_CHARS: Final = 4
TOO_MANY: Final = f"[redacted: the redacted arguments hold more than {MOST_VALUES} values]"
_LONG_CHARS: Final = 24
_PART_CHARS: Final = 12
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MASKED: Final = msgspec.Raw(msgspec.json.encode(MASK))
_NUMBER: Final = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?", re.IGNORECASE)


def checked_redact(name: str, given: object, parameters: Collection[str], aliases: Mapping[str, str]) -> frozenset[str]:
    """The names under which a payload may hold what is redacted: the parameters', and their aliases.

    Args:
        name: of the lambda, for messages.
        given: what `redact=` says.
        parameters: the names that the handler has.
        aliases: old name of a parameter -> present one.

    Raises:
        InvalidArgument: it is no list of texts, or names what is no parameter.
    """
    names = parameters_named(name, "redact", given, parameters, aliases, "password")
    return frozenset(names) | {old for old, now in aliases.items() if now in names}


def parameters_named(
    name: str, option: str, given: object, parameters: Collection[str], aliases: Mapping[str, str], example: str
) -> Collection[str]:
    """The parameters that an option of a lambda lists.

    Raises:
        InvalidArgument: it is no list of texts, or names what is no parameter.
    """
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(each, str) for each in given):
        raise InvalidArgument(
            f'lambda {name}: {option} {short(given)}: give a list of parameters, such as ["{example}"]'
        )
    for each in given:
        if each not in parameters:
            from difflib import get_close_matches

            near = [aliases[each]] if each in aliases else get_close_matches(each, parameters, n=1)
            has = f"it has {', '.join(parameters)}" if parameters else "it has none"
            hint = f"did you mean {near[0]!r}?" if near else has
            raise InvalidArgument(f"lambda {name}: {option}: there is no parameter {each!r}; {hint}")
    return given


def redacted_payload(payload: bytes, encoding: int, names: Collection[str] | None) -> bytes:
    """A payload as people may see it.

    Args:
        payload, encoding: of a task.
        names: whose values are replaced; None: nobody can say, so all of them are.
    """
    if (names is not None and not names) or not payload:
        return payload
    if encoding == t.RAW:  # its bytes are the only argument
        return MASK.encode()
    try:
        given = _OBJECT.decode(payload)
    except FAILS:  # no handler could read it, and so it can't be told what in it is secret
        return bytes(_MASKED)
    hidden = {name: _MASKED for name in given if names is None or name in names}
    return msgspec.json.encode(given | hidden) if hidden else payload


class Redactor:
    """Replaces the values of redacted arguments in texts about one run. Costs nothing until it is first called.

    Args:
        names: of the arguments; none: every text stays as it is.
        payload, encoding: that hold the arguments.
        defaults: by name, of arguments that the payload lacks.
    """

    def __init__(
        self,
        names: Collection[str],
        payload: bytes = b"",
        encoding: int = t.JSON,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self._names = frozenset(names)
        self._payload = payload
        self._encoding = encoding
        self._defaults = defaults or {}
        self._values: Mapping[str, Any] = {}
        self._rules: _Rules | None = None

    def __bool__(self) -> bool:
        """Whether anything is redacted."""
        return bool(self._names)

    def add(self, values: Mapping[str, Any]) -> None:
        """Takes arguments by name as they were decoded: a date is written otherwise by Python than by JSON."""
        if self._names:
            self._values = values

    def __call__(self, text: str) -> str:
        """The text without the values."""
        if not self._names or not text:
            return text
        if self._rules is None:
            self._rules = _Rules(self._given())
        return self._rules.apply(text)

    def _given(self) -> Iterator[tuple[str, Any]]:
        found: set[str] = set()
        for name, value in _arguments(self._payload, self._encoding, self._names):
            found.add(name)
            yield name, value
        for values in (self._values, self._defaults):
            new = (self._names & values.keys()) - (found if values is self._defaults else set())
            found |= new
            yield from ((name, values[name]) for name in new)


NOTHING: Final = Redactor(())
"""Of a lambda that redacts nothing."""


class _Rules:
    """What is looked for in texts, made of arguments once."""

    def __init__(self, arguments: Iterable[tuple[str, Any]]) -> None:
        forms: set[str] = set()
        self._short: list[re.Pattern[str]] = []
        self._too_many = False
        for name, value in arguments:
            leaves = list(leaves_of(value))
            self._too_many |= len(leaves) > MOST_VALUES
            for leaf in leaves[:MOST_VALUES]:
                forms |= set(forms_of(leaf))
            if leaves != [value]:
                forms |= set(whole_forms(value))
            for key, each in _short_values(name, value):
                written = "|".join(re.escape(one) for one in {str(each), repr(each), *json_forms(each)} - {""})
                stands = rf"(\b{re.escape(key)}\b['\"\\]*(?:\s*[=:]|\s+is|(?=\s))\s*['\"\\]*)(?:{written})(?!\w)"
                self._short.append(re.compile(stands))
        long_enough = (each for each in forms if len(each) >= LEAST_CHARS and each not in MASK)
        self._forms = sorted(long_enough, key=len, reverse=True)  # what holds another one goes first

    def apply(self, text: str) -> str:
        if self._too_many:
            return TOO_MANY
        for form in self._forms:
            if _NUMBER.fullmatch(form):
                text = re.sub(rf"(?<![\d.]){re.escape(form)}(?!\d)", MASK, text)
            else:
                text = text.replace(form, MASK)
        for form in self._forms:  # only now: the beginning of one form may be that of another
            if len(form) >= _LONG_CHARS:
                text = _without_parts(text, form)
        for pattern in self._short:
            text = pattern.sub(rf"\g<1>{MASK}", text)
        return text


def _without_parts(text: str, form: str) -> str:
    """Without the beginnings and ends of a long value."""
    at = text.find(form[:_PART_CHARS])
    while at >= 0:
        size = _common(text[at : at + len(form)], form)
        text = text[:at] + MASK + text[at + size :]
        at = text.find(form[:_PART_CHARS], at + len(MASK))
    at = text.find(form[-_PART_CHARS:])
    while at >= 0:
        end = at + _PART_CHARS
        size = _common(text[max(0, end - len(form)) : end][::-1], form[::-1])
        text = text[: end - size] + MASK + text[end:]
        at = text.find(form[-_PART_CHARS:], end - size + len(MASK))
    return text


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    differ = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


def _arguments(payload: bytes, encoding: int, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The named arguments of a payload, as plain values."""
    if encoding == t.RAW:
        yield from ((name, payload) for name in names if payload)
        return
    try:
        given = _OBJECT.decode(payload)
    except FAILS:
        return
    for name in names:
        if name in given:
            with contextlib.suppress(*FAILS):
                yield name, msgspec.json.decode(given[name])


def _is_short(value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return True
    return isinstance(value, str | int | float) and len(str(value)) < LEAST_CHARS


def _short_values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The short values of an argument, each with the name that stands before it: the argument's, or the key's in a mapping or an object."""
    with contextlib.suppress(Exception):  # of a type without a form
        value = msgspec.to_builtins(value, enc_hook=form_of)
    stack, found = [(name, value)], 0
    while stack and found < MOST_VALUES:
        name, each = stack.pop()
        if isinstance(each, dict):
            stack.extend((key, inner) for key, inner in each.items() if isinstance(key, str) and key)
        elif isinstance(each, list):
            stack.extend((name, inner) for inner in each if isinstance(inner, dict))
        elif _is_short(each):
            found += 1
            yield name, each
