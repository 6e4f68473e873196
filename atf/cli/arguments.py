"""Reads texts as arguments of a lambda, by its registered signature: `-a NAME=VALUE` and cells of a CSV file.

An argument that takes a text gets the text as it is written: `-a zip=75001` is "75001", whatever else the argument takes beside texts. Only
where it takes lists or objects too, what begins with [ or { is read as JSON. Any other argument is JSON of a kind that it takes. Where
nobody knows what it takes, a value is JSON, or else the text itself. What is in lists and objects is checked as well, and texts of dates and the like.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from atf.errors import InvalidArgument
from atf.rpc import api, frontend_pb2 as f
from atf.sdk.signature_text import ALIASES

from .argument_types import ArgumentType, argument_type_of, said_of
from .json_values import json_value


class Parameters(NamedTuple):
    """What a lambda takes, by its registered signature."""

    names: tuple[str, ...]
    positional: tuple[str, ...]
    """Those that may be given by position."""
    required: frozenset[str]
    takes: Mapping[str, ArgumentType | None]
    """By name; None: nobody knows."""
    aliases: Mapping[str, str]
    """Old names of them -> the present ones."""

    def check(self, given: Mapping[str, Any]) -> None:
        """Checks the arguments of one call, by name and as JSON has them.

        Raises:
            InvalidArgument: there is no such parameter, the message names the nearest; or an argument is missing, or no value that is taken.
        """
        present = {self.aliases.get(name, name) for name in given}
        if unknown := sorted(present - set(self.names)):
            near = get_close_matches(unknown[0][:80], self.names, n=1)
            mend = f"; did you mean {near[0]!r}? It takes" if near else "; it takes"
            raise InvalidArgument(
                f"the lambda has no argument {unknown[0][:80]!r}{mend} {', '.join(self.names) or 'none'}"
            )
        if missing := sorted(self.required - present):
            raise InvalidArgument(f"argument {missing[0]!r} is missing")
        for name, value in given.items():
            takes = self.takes.get(self.aliases.get(name, name))
            if takes is not None and (fault := takes.fault(value)):
                raise InvalidArgument(f"argument {name!r}{said_of(fault)}")

    def read(self, name: str, text: str) -> Any:
        """A text as a value of one argument.

        Raises:
            InvalidArgument: it takes no such value.
        """
        takes = self.takes.get(self.aliases.get(name, name))
        return takes.read(name, text) if takes is not None else untyped(text)


def untyped(text: str) -> Any:
    """A text as a value of which nobody knows what it shall be: JSON, or else the text itself.

    Raises:
        InvalidArgument: it is a number that JSON does not have.
    """
    try:
        return json_value(text)
    except ValueError:
        return text


async def registered(stub: api.Frontend, lambda_name: str) -> Parameters | None:
    """What a lambda takes; None: its signature can't be read.

    Raises:
        UnknownLambda: it is not registered; the message names the nearest.
    """
    known = (await stub.list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": lambda_name}))).lambdas
    return next((parameters_of(each.spec.signature) for each in known if each.spec.name == lambda_name), None)


def parameters_of(signature: str) -> Parameters | None:
    """The parameters in the text of a signature, such as "(path: str, *, size: int = 256) -> dict"; None: it can't be read."""
    signature, _, said = signature.partition(ALIASES)
    given = _parsed(signature)
    if given is None:
        return None
    positional = [*given.posonlyargs, *given.args]
    plain = positional[: len(positional) - len(given.defaults)]
    by_name = [each for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    every = [*positional, *given.kwonlyargs]
    return Parameters(
        tuple(each.arg for each in every),
        tuple(each.arg for each in positional),
        frozenset(each.arg for each in (*plain, *by_name)),
        {each.arg: argument_type_of(each.annotation) for each in every},
        {old: now for old, _, now in (each.partition(" = ") for each in said.split(", ")) if now},
    )


def _parsed(signature: str) -> ast.arguments | None:
    for text in (signature, signature.rpartition(")")[0] + ")"):  # what stands behind the arrow may be no Python
        try:
            function = ast.parse(f"def _{text}: ...").body[0]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if isinstance(function, ast.FunctionDef):
            return function.args
    return None
