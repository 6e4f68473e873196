"""The opt-in index: the entries of a task in it, and which lambdas have those that a filter asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.search import as_searched, searched_values
from atf.store import keys

from .lambdas import KnownLambda
from .validate import shown


def entries_of(spec: f.LambdaSpec, payload: bytes, encoding: int) -> str:
    """The entries of a task of a lambda that declares some arguments, as the store keeps them."""
    return keys.entries(searched_values(spec.search, payload, encoding))


def entries_asked(search: Mapping[str, str]) -> list[str]:
    """The entries that a filter asks for."""
    return [keys.entry(name, as_searched(search[name])) for name in sorted(search)]


def declaring(search: Mapping[str, str], lambdas: Sequence[KnownLambda], asked: str) -> list[str]:
    """Those of some lambdas that declare all that is searched. `asked`: the one that the filter names, or none.

    Raises:
        InvalidArgument: none of them does.
    """
    wanted = {*search}
    found = [each.record.name for each in lambdas if wanted <= {*each.spec.search}]
    if not found:
        names = ", ".join(shown(each) for each in sorted(wanted))
        does = f"{asked} does not declare" if asked else "no lambda declares"
        raise InvalidArgument(f"search: {does} {names}; its code has to: @app.task(search={sorted(wanted)[:3]})")
    return found
