"""What a caller may do: verbs, and the namespaces, lambdas and pools for which it has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from atf.errors import InvalidArgument
from atf.task import check_lambda, check_name


class Verb(StrEnum):
    """What can be granted."""

    SCHEDULE = "schedule"
    """Tasks, batches and jobs."""
    READ = "read"
    """Where tasks stand, without what they hold."""
    READ_PAYLOAD = "read_payload"
    """Arguments, results, progress and logs."""
    OPERATE = "operate"
    """Cancel, retry, pause, set limits and gates."""
    WORK = "work"
    """Register lambdas, claim their tasks and end them."""
    ADMIN = "admin"
    """All of these; tokens, hosts and pools too."""


ALL: Final = "*"
"""Every namespace but that of the built-in lambdas, which run programs and call hosts: these are granted one by one."""
BUILT_IN: Final = "atf"
"""The namespace of the built-in lambdas."""
_BY_NAME: Final = frozenset({Verb.SCHEDULE, Verb.WORK})


@dataclass(frozen=True)
class TokenGrant:
    """What somebody may do.

    Attributes:
        verbs: what.
        scopes: for which namespaces, or full names of lambdas; ALL: every one.
        pools: for which pools a worker may ask; ALL: every one.
    """

    verbs: frozenset[Verb]
    scopes: frozenset[str]
    pools: frozenset[str] = frozenset({ALL})

    def can(self, verb: Verb) -> bool:
        """Whether it has a verb for anything at all."""
        return verb in self.verbs or Verb.ADMIN in self.verbs

    def allows(self, verb: Verb, lambda_name: str) -> bool:
        """Whether it has a verb for a lambda, given by its full name, or for a namespace, which is a name without a slash."""
        if not self.can(verb):
            return False
        namespace = lambda_name.partition("/")[0]
        if namespace == BUILT_IN and verb in _BY_NAME:
            return lambda_name in self.scopes
        return ALL in self.scopes or namespace in self.scopes or lambda_name in self.scopes

    def scopes_of(self, verb: Verb) -> list[str]:
        """The scopes that count for a verb: namespaces, which end with a slash, and lambdas."""
        by_name = {BUILT_IN} if verb in _BY_NAME else set()
        return sorted(each if "/" in each else f"{each}/" for each in self.scopes - by_name)

    def touches(self, verb: Verb, namespace: str) -> bool:
        """Whether it has a verb for a namespace, or for one lambda of it at least."""
        return self.allows(verb, namespace) or (
            self.can(verb) and any(each.startswith(f"{namespace}/") for each in self.scopes)
        )

    def everywhere(self, verb: Verb) -> bool:
        """Whether it has a verb for every namespace."""
        return self.can(verb) and ALL in self.scopes

    def sees(self, namespace: str) -> bool:
        """Whether it has any verb for a namespace, or for one lambda of it at least."""
        return any(self.touches(each, namespace) for each in self.verbs)

    def seen(self) -> list[str]:
        """The namespaces, which end with a slash, for which or for one lambda of which it has any verb; empty: all."""
        if ALL in self.scopes and self.sees(BUILT_IN):
            return []
        named = {each.partition("/")[0] for each in self.scopes}
        return sorted(f"{each}/" for each in named if self.sees(each)) or ["-"]  # which is no namespace

    def is_unbounded(self, verb: Verb) -> bool:
        """Whether there is no lambda for which it lacks a verb."""
        return self.everywhere(verb) and verb not in _BY_NAME

    def serves(self, pool: str) -> bool:
        """Whether a worker may ask for the tasks of a pool."""
        return ALL in self.pools or pool in self.pools


def verbs_of(names: Iterable[str]) -> frozenset[Verb]:
    """Verbs by their names.

    Raises:
        InvalidArgument: there is none, or one is unknown.
    """
    known = [each.value for each in Verb]
    found = frozenset(names)
    for each in sorted(found):
        if each not in known:
            raise InvalidArgument(f"verb {each[:80]!r}: use {', '.join(known)}")
    if not found:
        raise InvalidArgument(f"a token that can do nothing is of no use: give it one or more of {', '.join(known)}")
    return frozenset(map(Verb, found))


def scopes_of(names: Iterable[str]) -> frozenset[str]:
    """Namespaces, full names of lambdas, or ALL.

    Raises:
        InvalidArgument: there is none, or one is malformed.
    """
    found = frozenset(names)
    if not found:
        raise InvalidArgument("name the namespaces of the token, or * for all")
    for each in found - {ALL}:
        check_lambda(each) if "/" in each else check_name(each, "namespace")
    return found
