"""How many examples a fuzz test runs: few and always the same in the suite, as many as asked for in `make fuzz`."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import hypothesis.strategies as st
from click import ClickException
from hypothesis import HealthCheck, seed, settings

from .texts import BIDI, ESCAPES
from .wire import MORE, SEED

F = TypeVar("F", bound=Callable[..., Any])

FEW = 40


def fuzz(test: F) -> F:
    """Makes a hypothesis test one of the suite's fuzz tests."""
    bounded = settings(
        max_examples=MORE or FEW,
        derandomize=not MORE,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
    )
    made = bounded(test)
    if MORE:
        made = seed(random.Random(f"{SEED} {test.__name__}").getrandbits(64))(made)
    return made


PIECES = st.sampled_from(
    [
        *(ESCAPES, BIDI, "\0", "\n", "\t", "\u2028", "\U0001f600", "<b>", "[bold]", "%s", "\\ud800", "9" * 400),
        *("/", ":", "-", ".", "=", "@", "[", "]", '"', "'", "{", "}", "{0}", "0-a", "shop/mail"),
        *("1e999", "nan", "inf", "-1", "\u0663", "true"),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="0123456789.-+eE_ smhdxnaif:/,@[]{}\"'=#T\\Z", max_size=40),
    st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=8).map("".join),
)
"""Any text but those that no encoding has."""
BROKEN_TEXTS = st.one_of(TEXTS, st.text(alphabet=st.characters(codec=None), max_size=20), st.just("\ud800"))
"""Any text at all, as a command line and a program may hold it."""
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 10**400, 10**4000, 1e308]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, BROKEN_TEXTS, st.binary(max_size=20))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(BROKEN_TEXTS, inner, max_size=4)),
    max_leaves=12,
)
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@contextlib.contextmanager
def understood_or(*kinds: type[Exception]) -> Iterator[None]:
    """What is done within succeeds, or is refused with a sentence by one of these."""
    try:
        yield
    except kinds as error:
        sentence = error.format_message() if isinstance(error, ClickException) else str(error)
        if not 10 < len(sentence) < 5_000:
            raise AssertionError(f"a sentence of {len(sentence)} characters: {sentence[:200]!r}") from error
