"""What somebody shows who has nothing valid: tokens, credentials and cookies that were damaged, are another's, or are nothing at all.

Everything comes from a seed and a number, so that a finding can be had again.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_FORM: Final = "abcdefghijklmnopqrstuvwxyz234567"
_SECRET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_SCHEMES: Final = (
    "Bearer ",
    "bearer ",
    "BEARER ",
    "Bearer  ",
    "Basic ",
    "Token ",
    "",
    " Bearer ",
    "Bearer\t",
    "Bearer",
)
_NAMES: Final = (
    "authorization",
    "dapr-api-token",
    "Authorization ",
    "x-forwarded-for",
    "x-token",
    "cookie",
    "grpc-timeout",
    "user-agent",
)
LONGEST: Final = 20_000
"""Characters, more than any server takes."""


@dataclass(frozen=True)
class ValidSecrets:
    """What is valid where all of this is shown, and what was once.

    Attributes:
        token: may do everything.
        others: tokens that have expired or were revoked, and an executor's credential that has expired.
        session: the cookie of a browser that has signed in.
    """

    token: str
    others: Sequence[str]
    session: str = ""


def damaged(chance: random.Random, valid: ValidSecrets) -> str:
    """Something in the place of a token, which is none; it may be what is not valid any more."""
    made: Sequence[Callable[[], str]] = (
        lambda: chance.choice(valid.others),
        lambda: _changed(chance, valid.token),
        lambda: _cut(chance, valid.token),
        lambda: _joined(chance, valid.token),
        lambda: _changed(chance, chance.choice(valid.others)),
        lambda: f"atf_{_of(chance, _FORM, 10)}_{_of(chance, _SECRET, 43)}",
        lambda: f"atf_{valid.token.split('_')[1]}_{_of(chance, _SECRET, 43)}",
        lambda: (
            f"atfx_{_of(chance, _FORM, 10)}_{chance.randrange(1 << 54)}_{_of(chance, _SECRET, 20)}_{_of(chance, _SECRET, 43)}"
        ),
        lambda: _of(chance, _SECRET + "_._~+/= ", chance.randrange(200)),
        lambda: _text(chance, chance.randrange(80)),
        lambda: base64.b64encode(chance.randbytes(chance.randrange(60))).decode(),
        lambda: valid.token + "A" * chance.choice((1, 100, 4_096, LONGEST)),
        lambda: "",
    )
    while (text := chance.choice(made)()) == valid.token:
        pass
    return text


def header(chance: random.Random, shown: str) -> str:
    """It, as the header `authorization` carries it, or nearly."""
    return chance.choice(_SCHEMES) + shown if chance.random() < 0.5 else f"Bearer {shown}"


def metadata(chance: random.Random, valid: ValidSecrets) -> list[tuple[str, str]]:
    """Headers of a call; none of them lets anybody in."""
    found = [("authorization", header(chance, damaged(chance, valid)))] if chance.random() < 0.9 else []
    more = range(chance.choice((0, 0, 0, 1, 2, 5, 50)))
    found += [(chance.choice(_NAMES), damaged(chance, valid)) for _ in more]
    chance.shuffle(found)
    return found


def cookies(chance: random.Random, valid: ValidSecrets) -> str:
    """The header `cookie` of a browser that has not signed in."""
    names = ("atf_session", "atf_csrf", "atf_said", "atf_zone", "atf_theme", "atf session", "", "x")
    parts = []
    for _ in range(chance.choice((0, 1, 1, 2, 5, 30))):
        session = chance.choice((valid.session[1:], valid.session.upper(), valid.session[::-1], f"{valid.session}0"))
        value = chance.choice((damaged(chance, valid), _of(chance, "0123456789abcdef", 64), _said(chance), session))
        parts.append(f"{chance.choice(names)}{chance.choice(('=', '=', '=', '', '=='))}{value}")
    return chance.choice(("; ", ";", ",")).join(parts)


def _said(chance: random.Random) -> str:
    """In the place of what an action has told for the next page."""
    told = chance.choice(('{"tone": "bad", "text": 1, "command": [1]}', "[]", "{}", '{"tone": {}}', "\0", "[" * 5_000))
    return base64.urlsafe_b64encode(told.encode()).decode()


def _of(chance: random.Random, letters: str, count: int) -> str:
    return "".join(chance.choice(letters) for _ in range(count))


def _text(chance: random.Random, count: int) -> str:
    """Any characters that one byte has: those which no header may have, too."""
    return "".join(chr(chance.randrange(256)) for _ in range(count))


def _changed(chance: random.Random, token: str) -> str:
    letters = list(token)
    for _ in range(chance.choice((1, 1, 2, 5))):
        letters[chance.randrange(len(letters))] = chance.choice((*_SECRET, chr(chance.randrange(256))))
    return "".join(letters)


def _cut(chance: random.Random, token: str) -> str:
    at = chance.randrange(len(token))
    return chance.choice((token[:at], token[at:], token[:at] + token[at + 1 :]))


def _joined(chance: random.Random, token: str) -> str:
    return chance.choice(
        (
            f"{token},{token}",
            f"{token} {token}",
            f"{token}\0",
            f" {token}x",
            token.upper(),
            token.replace("_", "-"),
            token[::-1],
        )
    )
