"""The keys that credentials of executors are signed with: 32 random bytes each, behind the time at which it was made.

The newest is first, and KEPT are kept, so that what the one before has signed stays valid. Others read the keys every few seconds. So a new key signs
nothing before all of them know it, unless it is the only one.

A key that an operator has made, who fears that the others are known to somebody, says in its last bytes until when these are believed. That is long enough
for every executor to have a credential by the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from atf.task import US

from .executor_credentials import KEY_BYTES
from .known_tokens import MOST_AGE_S

FIELD: Final = "keys"
"""In the place of a token's id, among the tokens of the store: a JSON list of the keys, in base64."""
LIFE_US: Final = 86_400 * US
"""After which another one is made."""
KEPT: Final = 2
_KNOWN_AFTER_US: Final = round(MOST_AGE_S * US)
_TIME_BYTES: Final = 8
OTHERS_LIFE_US: Final = 300 * US
"""After which the keys before one that an operator has made are believed no more: in the first _KNOWN_AFTER_US of it they still sign, and executors renew
what they have within RENEWED_WITHIN_S (executor/credential.py)."""


def new_key(now_us: int, random_bytes: Callable[[int], bytes]) -> bytes:
    """A key that is made now."""
    return now_us.to_bytes(_TIME_BYTES, "big") + random_bytes(KEY_BYTES)


def renewed(keys: Sequence[bytes], now_us: int, random_bytes: Callable[[int], bytes]) -> list[bytes] | None:
    """The keys from now on; None: they stay as they are."""
    if keys and now_us - made_at(keys[0]) < LIFE_US:
        return None
    return [new_key(now_us, random_bytes), *keys][:KEPT]


def rotated(keys: Sequence[bytes], now_us: int, random_bytes: Callable[[int], bytes]) -> list[bytes]:
    """The keys once an operator has another one made. While the last such rotation goes on: as they are."""
    if keys and others_until(keys[0]) > now_us:
        return list(keys)
    made = new_key(now_us, random_bytes) + (now_us + OTHERS_LIFE_US).to_bytes(_TIME_BYTES, "big")
    return [made, *believed(keys, now_us)[:KEPT]]


def others_until(key: bytes) -> int:
    """Until when the keys before this one are believed, in microseconds; 0: until they are not kept any more."""
    return int.from_bytes(key[-_TIME_BYTES:], "big") if len(key) == 2 * _TIME_BYTES + KEY_BYTES else 0


def believed(keys: Sequence[bytes], now_us: int) -> list[bytes]:
    """Those of the keys that credentials may be signed with now."""
    last = next((place for place, key in enumerate(keys) if 0 < others_until(key) <= now_us), len(keys))
    return list(keys[: last + 1])


def to_sign_with(keys: Sequence[bytes], now_us: int) -> bytes:
    """The newest key that everybody knows."""
    return next((each for each in keys if now_us - made_at(each) >= _KNOWN_AFTER_US), keys[-1])


def made_at(key: bytes) -> int:
    """When a key was made, in microseconds; 0: it does not say."""
    if len(key) < _TIME_BYTES + KEY_BYTES:
        return 0
    return int.from_bytes(key[:_TIME_BYTES], "big")
