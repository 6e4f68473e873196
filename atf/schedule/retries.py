"""What follows a fire that failed: nothing, or the same again after a constant interval. Pure arithmetic.

A fire that failed has used up one of its job's `repeats` all the same. The next tick follows from the instant of the one that
failed, whatever was tried in between. Source: failure_policy of Dapr's jobs API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from atf.task import US

from .durations import MAX_CHARS, parse_go
from .refusal import Given


@dataclass(frozen=True)
class FailurePolicy:
    """Constant: try again after an interval."""

    interval_us: int
    """Microseconds from the instant for which one attempt was due until the next."""
    max_retries: int | None
    """Attempts after the first, for each tick; 0: a tick that failed is dropped; None: no bound."""

    @classmethod
    def parse(cls, interval: str, max_retries: int | None) -> FailurePolicy:
        """A policy from a Go duration and a number.

        Raises:
            InvalidArgument: the interval is malformed or negative, or the number is negative.
        """
        given = Given("failure_policy interval", interval)
        interval_us = parse_go(given.checked(MAX_CHARS))
        if interval_us < 0:
            raise given.refuse(0, "it is negative", "give 0s or more")
        if max_retries is not None and max_retries < 0:
            raise Given("failure_policy max_retries", str(max_retries)).refuse(0, "it is negative", "give 0 or more")
        return cls(interval_us, max_retries)

    def retry_us(self, attempt_us: int, failures: int) -> int | None:
        """When a tick is tried again.

        Args:
            attempt_us: the instant for which the attempt that failed was due, microseconds since the epoch.
            failures: attempts of this tick that failed, that one included.

        Returns:
            Microseconds since the epoch; None: no more.
        """
        if self.max_retries is not None and failures > self.max_retries:
            return None
        return attempt_us + self.interval_us


DROP: Final = FailurePolicy(0, 0)
"""Never again."""
DEFAULT: Final = FailurePolicy(US, 3)
"""Of jobs that name no policy."""
