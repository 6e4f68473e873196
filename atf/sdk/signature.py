"""Reads what a handler takes and returns, and encodes and decodes calls by it.

Encoding decodes again what it wrote, and compares, since that costs about a microsecond: a value that would arrive as another one
fails where it was given, not hours later where it runs. Plain texts, numbers and truth values need no such look.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from atf.errors import InvalidArgument, Misfit
from atf.rpc import task_pb2 as t

from .arrivals import difference, same
from .handlers import check_parameters, hints_of, signature_of
from .option_names import line_for
from .payload import FAILS, check_size, decode_result, encode_arguments, reason, short
from .redaction import MASK, NOTHING, Redactor, checked_redact
from .search import checked_search, declare
from .signature_checks import changed, check_context, checked_aliases, is_context, place_of, with_value
from .signature_digest import digest_of
from .signature_text import signature_text
from .values import NoFormError, decoder_of, plain_types, travelling, travelling_result

_MISSING: Final = object()
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Hidden:
    """Stands for a default in a signature."""

    def __repr__(self) -> str:
        return MASK


_HIDDEN: Final = _Hidden()


class Codec:
    """The arguments and the result of one handler.

    Args:
        fn: the handler.
        name: of the lambda, for messages.
        context: the class of what a run is given first, where the handler asks for it.
        aliases: old name of a parameter -> present one; a payload that was made under the old name decodes.
        redact: parameters whose values stand in no message.
        search: parameters by whose values tasks are found.

    Attributes:
        takes_context: whether the handler's first parameter is the Context.
        signature: what a caller gives: the handler's parameters without the context.
        redacted: the names under which a payload may hold what is redacted.

    Raises:
        TypeError: the signature has *args, **kwargs, positional-only parameters, or an annotation JSON has no form for.
        InvalidArgument: an alias is a parameter's name, or stands for no parameter; or there is none that is to be redacted.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        name: str,
        context: type,
        aliases: Mapping[str, str] | None = None,
        redact: Collection[str] | None = None,
        search: Collection[str] | None = None,
    ) -> None:
        self._fn = fn
        self._name = name
        signature = signature_of(fn, name)
        parameters = list(signature.parameters.values())
        hints: dict[str, Any] | None
        try:
            hints = hints_of(fn, name)
        except NameError:
            hints = None  # a class that is defined further down: looked up again at the first use
        self.takes_context = bool(parameters) and is_context(parameters[0], hints, context)
        if self.takes_context:
            parameters = parameters[1:]
        check_parameters(fn, name, parameters, context=self.takes_context)
        check_context(name, parameters, hints or {}, context)
        self.signature = signature.replace(parameters=parameters)
        self._positional = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        self._names = [each.name for each in parameters]
        self._known = frozenset(self._names)
        self._required = frozenset(each.name for each in parameters if each.default is each.empty)
        by_name = self._required - set(self._positional)
        self._needed = len(self._names) + 1 if by_name else len(self._required)
        self._aliases = checked_aliases(name, aliases, self._names)
        self.redacted = checked_redact(name, redact, self._names, self._aliases)
        self.search = checked_search(name, search, self._names, self._aliases, self.redacted)
        if self.search:
            declare(name, self.search)
        self._digest = ""
        self._raw: str | None = None
        self._result = decoder_of(Any)
        self._arguments: msgspec.json.Decoder[Any] | None = None
        self._plain: dict[str, frozenset[type]] = {}
        """Of each parameter the classes of values that arrive as what they are."""
        self._forms: dict[str, msgspec.json.Decoder[Any]] = {}
        """What decodes all arguments but that of one parameter, by its name."""
        if hints is not None:
            with contextlib.suppress(NameError):  # of a field: as above
                self._prepare(hints)

    def _prepare(self, hints: Mapping[str, Any]) -> msgspec.json.Decoder[Any]:
        parameters = list(self.signature.parameters.values())
        if len(parameters) == 1 and hints.get(parameters[0].name) is bytes:
            self._raw = parameters[0].name
        kinds: dict[str, Any] = {}
        for each in parameters:
            try:
                kinds[each.name] = travelling(hints.get(each.name, Any))
            except TypeError as error:
                raise TypeError(f"lambda {self._name}: parameter {each.name!r}: {error}") from None
        try:
            self._result = decoder_of(travelling_result(hints.get("return", Any)))
        except TypeError as error:
            raise TypeError(f"lambda {self._name}: what it returns: {error}") from None
        self._kinds = kinds
        self._plain = {name: plain_types(kind) for name, kind in kinds.items()}
        self._arguments = self._form()
        return self._arguments

    @property
    def shown(self) -> inspect.Signature:
        """The signature for people: without the defaults of what is redacted."""
        if not self.redacted:
            return self.signature
        return self.signature.replace(
            parameters=[
                each.replace(default=_HIDDEN) if each.name in self.redacted and each.default is not each.empty else each
                for each in self.signature.parameters.values()
            ]
        )

    def redactor(self, payload: bytes, encoding: int) -> Redactor:
        """Takes the values of redacted arguments out of texts about a payload."""
        if not self.redacted:
            return NOTHING
        parameters = self.signature.parameters.values()
        defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        return Redactor(self.redacted, payload, encoding, defaults)

    def _form(self, without: str = "") -> msgspec.json.Decoder[Any]:
        """What decodes all arguments; that of the parameter `without` may be missing."""
        fields: list[Any] = []
        for name, kind in self._kinds.items():
            needed = name in self._required and name != without
            fields.append((name, kind) if needed else (name, kind, _MISSING))
        return decoder_of(msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True))

    def _form_without(self, parameter: str) -> msgspec.json.Decoder[Any]:
        decoder = self._decoder()
        if not parameter:
            return decoder
        if parameter not in self._forms:
            self._forms[parameter] = self._form(without=parameter)
        return self._forms[parameter]

    def _decoder(self) -> msgspec.json.Decoder[Any]:
        if self._arguments is not None:
            return self._arguments
        try:
            return self._prepare(hints_of(self._fn, self._name))
        except NameError as error:
            raise TypeError(
                f"lambda {self._name}: {error} (in an annotation). Types of arguments are needed at run time: import"
                " them outside `if TYPE_CHECKING`, and define them at the top of a module"
            ) from None

    @property
    def digest(self) -> str:
        """What tells this signature from another one that reads other payloads; see signature_digest.py.

        Raises:
            TypeError: an annotation names what is not there.
        """
        if not self._digest:
            self._decoder()
            hints = hints_of(self._fn, self._name)
            parameters = [(each, each in self._required, hints.get(each, Any)) for each in self._names]
            self._digest = digest_of(parameters, self._aliases, raw=self._raw is not None)
        return self._digest

    @property
    def text(self) -> str:
        """The signature as it is registered; see signature_text.py.

        Raises:
            TypeError: an annotation names what is not there.
        """
        self._decoder()
        return signature_text(self.shown, hints_of(self._fn, self._name), self._aliases)

    @property
    def takes_raw(self) -> bool:
        """Whether the only argument travels as the bytes that it is."""
        self._decoder()
        return self._raw is not None

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, t.Encoding]:
        """A call's arguments as (payload, encoding).

        Raises:
            TypeError: the arguments do not fit the handler's parameters or their annotations; names the argument.
            InvalidArgument: JSON can't hold a value, or the payload is over 1 MiB; names the argument.
        """
        return self.encode_bound(self.bind(args, kwargs))

    def encode_bound(self, given: dict[str, Any]) -> tuple[bytes, t.Encoding]:
        """Arguments by name, as `bind` gives them, as (payload, encoding). Raises what `encode` does."""
        decoder = self._decoder()
        if self._raw is not None:
            payload, encoding = self._raw_payload(given), t.RAW
        else:
            payload, encoding = encode_arguments(self._name, given), t.JSON
            self._check_values(decoder, given, payload)
        check_size(self._name, payload)
        return payload, encoding

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """A call's arguments by name, in the order of the signature.

        Raises:
            TypeError: they do not fit the handler's parameters.
        """
        count = len(self._positional)
        if len(args) > count:  # inspect would not say which
            takes = f"takes {count} positional arguments ({', '.join(self._positional)})".replace(" ()", "")
            raise TypeError(
                f"{self._name}() {takes}, {len(args)} were given; number {count + 1} is {self.short(args[count])}"
            )
        # The common cases; inspect takes ten times as long.
        if not kwargs and len(args) >= self._needed:
            return dict(zip(self._positional, args, strict=False))
        if not args and kwargs.keys() <= self._known and self._required <= kwargs.keys():
            return {name: kwargs[name] for name in self._names if name in kwargs}
        try:
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self._name}(): {error}{self._hint(kwargs)}") from None

    def _hint(self, kwargs: Mapping[str, Any]) -> str:
        """Where an option of the task stands, which was given among the arguments."""
        lines = {name: line_for(name) for name in kwargs if name not in self._known}
        return next((f". The option {name} stands elsewhere: write {line}" for name, line in lines.items() if line), "")

    def encode_without(self, parameter: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """A call's arguments as JSON, but for one that is given later; where it is the first, `args` are those behind it.

        Args:
            parameter: whose argument is missing; empty: none is.
            args, kwargs: the others.

        Raises:
            TypeError: they do not fit the handler's parameters.
            InvalidArgument: JSON can't hold a value.
        """
        if parameter and parameter == self.first and parameter in self._positional:
            given = self.bind((None, *args), kwargs)
        else:
            given = self.bind(args, {**kwargs, parameter: None} if parameter else kwargs)
        given = {name: value for name, value in given.items() if name != parameter}
        payload = encode_arguments(self._name, given)
        self._check_values(self._form_without(parameter), given, payload)
        return payload

    @property
    def first(self) -> str:
        """The name of the first parameter; empty: there is none."""
        return self._names[0] if self._names else ""

    def _raw_payload(self, given: dict[str, Any]) -> bytes:
        assert self._raw is not None
        value = given.get(self._raw, self.signature.parameters[self._raw].default)
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"{self._name}(): argument {self._raw!r} must be bytes, got {self.short(value)}")
        return bytes(value)

    def short(self, value: object) -> str:
        """A value in a message: of a lambda that redacts, it may be one that was given at the wrong place."""
        return f"a {type(value).__name__}" if self.redacted else short(value)

    def _check_values(self, decoder: msgspec.json.Decoder[Any], given: dict[str, Any], payload: bytes) -> None:
        """Refuses a value that would not arrive as what it is."""
        plain = self._plain
        for name, value in given.items():  # all() would take twice as long
            if type(value) not in plain[name]:
                break
        else:
            return
        try:
            arrived = decoder.decode(payload)
            for name, value in given.items():
                if type(value) in plain[name] or same(value, getattr(arrived, name)):
                    continue
                if found := difference(value, getattr(arrived, name)):
                    redact = self.redactor(payload, t.JSON)
                    redact.add(given)
                    raise TypeError(f"{self._name}(): argument {name!r}{redact(changed(*found))}")
        except msgspec.ValidationError as error:
            redact = self.redactor(payload, t.JSON)
            redact.add(given)
            raise TypeError(f"{self._name}(): {redact(with_value(place_of(str(error)), given))}") from None
        except RecursionError as error:
            raise InvalidArgument(f"{self._name}(): {reason(error)}") from None

    def decode(self, payload: bytes, encoding: int) -> dict[str, Any]:
        """The arguments by name; those that were not given are left to the handler's defaults.

        Raises:
            Misfit: the payload does not fit the handler; the message says where.
            InvalidArgument: it is no JSON, which no handler could read.
            ValueError: code of a type of the handler's (__post_init__) refused a value.
        """
        decoder = self._decoder()
        if encoding == t.RAW:
            if self._raw is None:
                raise Misfit(f"{self._name}: the payload is raw bytes, but the handler takes JSON arguments")
            return {self._raw: payload}
        try:
            given = decoder.decode(payload)
        except FAILS as error:
            given = self._decode_old(decoder, payload, error)
        values = msgspec.structs.asdict(given)
        if len(self._required) == len(self._names):
            return values
        return {name: value for name, value in values.items() if value is not _MISSING}

    def decode_without(self, parameter: str, payload: bytes) -> None:
        """Checks a payload in which the argument of one parameter is missing, since it comes later.

        Raises:
            Misfit, InvalidArgument, ValueError: as for `decode`.
        """
        self._decoder()
        now = self._aliases.get(parameter, parameter)
        if now not in self._known:
            raise Misfit(
                f"{self._name}: it would be given the argument {parameter!r}, and there is no such parameter. This code takes {self.shown}"
            )
        form = self._form_without(now)
        try:
            form.decode(payload)
        except FAILS as error:
            self._decode_old(form, payload, error)

    def _decode_old(self, decoder: msgspec.json.Decoder[Any], payload: bytes, failed: Exception) -> Any:
        """The same of a payload that may have been made under old names: it is read once more, with the present ones."""
        try:
            given = _OBJECT.decode(payload)
        except FAILS as error:  # the whole of it is read: what is no JSON is told from what does not fit
            raise self._unfit(error, payload) from None
        old = [name for name in given if name in self._aliases]
        if not old:
            raise self._unfit(failed, payload) from None
        for name in old:
            now = self._aliases[name]
            if now in given:
                raise Misfit(
                    f"{self._name}: the payload does not fit: it has both {name!r} and {now!r}, and {name!r} is an alias of {now!r}"
                )
            given[now] = given.pop(name)
        try:
            return decoder.decode(msgspec.json.encode(given))
        except FAILS as error:
            raise self._unfit(error, payload) from None

    def _unfit(self, error: Exception, payload: bytes) -> Exception:
        """What an error of msgspec's stands for."""
        said = self.redactor(payload, t.JSON)(reason(error))
        if not isinstance(error, msgspec.ValidationError):
            return InvalidArgument(f"{self._name}: the payload can't be read: {said}")
        if error.__cause__ is not None and not isinstance(error.__cause__, NoFormError):
            return ValueError(f"{self._name}: the payload was refused: {place_of(said)}")  # by code of a type's own
        return Misfit(f"{self._name}: the payload does not fit: {place_of(said)}. This code takes {self.shown}")

    def decode_result(self, result: bytes, encoding: int) -> Any:
        """A recorded result, in the type of the handler's return annotation.

        Raises:
            InvalidArgument: it does not fit the annotation.
        """
        self._decoder()
        return decode_result(self._name, result, encoding, self._result)
