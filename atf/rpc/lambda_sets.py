"""Names a set of lambdas by a digest, so that a set of thousands is sent once and not with every call.

A set is what an executor runs: lambdas, each with the digest of its signature. Equal sets have equal digests, whoever names them.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from atf.errors import InvalidArgument
from atf.task import check_lambda

MAX_LAMBDAS: Final = 4_096
"""Of one set: so many names of the greatest length are half of what a message may have."""
MAX_KNOWN: Final = 4_096
"""Sets that one process remembers; what was asked for longest ago is forgotten first, and named again when it is asked for."""
MAX_KNOWN_LAMBDAS: Final = 262_144
"""Lambdas of all those sets together; of such a number an HSC takes some 40 MiB."""
_CHARS: Final = 32
"""Of a digest, hexadecimal: 128 bits. Two sets with one digest would be taken for the same."""
_DIGEST: Final = re.compile(rf"[0-9a-f]{{{_CHARS}}}")
_SIGNATURE: Final = re.compile(r"[a-z0-9_-]{1,32}")


def digest_of(signatures: Mapping[str, str]) -> str:
    """The digest of a set: by lambda the digest of its signature; "" where none is said."""
    lines = sorted(f"{name} {signature}" for name, signature in signatures.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_CHARS]


class LambdaSet:
    """What an executor runs. Equal where the digests are.

    Attributes:
        lambdas: their names.
        signatures: of those that say one, its digest.
        digest: of the set.
    """

    __slots__ = ("digest", "lambdas", "signatures")

    def __init__(self, signatures: Mapping[str, str]) -> None:
        self.lambdas = frozenset(signatures)
        self.signatures = {name: signature for name, signature in signatures.items() if signature}
        self.digest = digest_of(signatures)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LambdaSet) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"LambdaSet({self.digest}, {len(self.lambdas)} lambdas)"

    @classmethod
    def named(cls, digest: str, lambdas: Sequence[str], signatures: Sequence[str]) -> LambdaSet:
        """A set as a message names it: what one call stream of an executor runs, or all of them together.

        Args:
            digest: that it must have.
            lambdas: their names.
            signatures: of each, in their order; none at all: they say none.

        Raises:
            InvalidArgument: it breaks a rule, or has another digest.
        """
        check_lambdas(lambdas, signatures, most=2 * MAX_LAMBDAS, may_say_none=True)
        names = map(sys.intern, lambdas)  # most of the sets that a process knows have them in common
        found = cls(dict(zip(names, signatures or [""] * len(lambdas), strict=True)))
        if found.digest != digest:
            raise InvalidArgument(
                f"lambda_set {digest!r}: the digest of these lambdas is {found.digest!r}; it is made as atf/rpc/lambda_sets.py says"
            )
        return found


def check_digest(digest: str, what: str) -> str:
    """A set's digest.

    Raises:
        InvalidArgument: it is none.
    """
    if not _DIGEST.fullmatch(digest):
        raise InvalidArgument(f"{what} {digest[:80]!r}: use a digest of {_CHARS} characters 0-9 a-f")
    return digest


def check_lambdas(
    lambdas: Sequence[str], signatures: Sequence[str], *, most: int = MAX_LAMBDAS, may_say_none: bool = False
) -> None:
    """The names of lambdas, with the digests of their signatures in the same order.

    Raises:
        InvalidArgument: one breaks a rule.
    """
    if not lambdas:
        raise InvalidArgument("lambdas: name at least one that the executor can run")
    if len(lambdas) > most:
        raise InvalidArgument(f"{len(lambdas)} lambdas: at most {most} in one executor")
    for name in lambdas:
        check_lambda(name)
    if len(signatures) != len(lambdas) and not (may_say_none and not signatures):
        raise InvalidArgument(
            f"{len(signatures)} signatures of {len(lambdas)} lambdas: give one of each, in their order"
        )
    for each in signatures:
        if not _SIGNATURE.fullmatch(each) and not (may_say_none and not each):
            raise InvalidArgument(f"signature {each[:40]!r}: use 1 to 32 of the characters a-z 0-9 _ -")


class KnownSets:
    """The sets that have been named, by digest."""

    def __init__(self) -> None:
        self._sets: OrderedDict[str, LambdaSet] = OrderedDict()
        self._lambdas = 0

    def get(self, digest: str) -> LambdaSet | None:
        """The set; None: it is not known here."""
        found = self._sets.get(digest)
        if found is not None:
            self._sets.move_to_end(digest)
        return found

    def learn(self, named: LambdaSet) -> LambdaSet:
        """Remembers a set."""
        if (known := self.get(named.digest)) is not None:
            return known
        self._sets[named.digest] = named
        self._lambdas += len(named.lambdas)
        while len(self._sets) > MAX_KNOWN or (self._lambdas > MAX_KNOWN_LAMBDAS and len(self._sets) > 1):
            _, forgotten = self._sets.popitem(last=False)
            self._lambdas -= len(forgotten.lambdas)
        return named
