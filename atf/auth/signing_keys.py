"""The keys that credentials of executors are signed with: 32 random bytes each, behind the time at which it was made.

The newest is first, and KEPT are kept, so that what the one before has signed stays valid. Others read the keys every few seconds. So a new key signs
nothing before all of them know it, unless it is the only one.
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


def new_key(now_us: int, random_bytes: Callable[[int], bytes]) -> bytes:
    """A key that is made now."""
    return now_us.to_bytes(_TIME_BYTES, "big") + random_bytes(KEY_BYTES)


def renewed(keys: Sequence[bytes], now_us: int, random_bytes: Callable[[int], bytes]) -> list[bytes] | None:
    """The keys from now on; None: they stay as they are."""
    if keys and now_us - made_at(keys[0]) < LIFE_US:
        return None
    return [new_key(now_us, random_bytes), *keys][:KEPT]


def to_sign_with(keys: Sequence[bytes], now_us: int) -> bytes:
    """The newest key that everybody knows."""
    return next((each for each in keys if now_us - made_at(each) >= _KNOWN_AFTER_US), keys[-1])


def made_at(key: bytes) -> int:
    """When a key was made, in microseconds; 0: it does not say."""
    if len(key) != _TIME_BYTES + KEY_BYTES:
        return 0
    return int.from_bytes(key[:_TIME_BYTES], "big")
