"""For all tests: no example of hypothesis has a deadline, since a busy machine is no bug."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
