"""For all tests: the same surroundings everywhere; no example of hypothesis has a deadline, since a busy machine is no bug; and fakeredis is quick."""

from __future__ import annotations

from hypothesis import settings

from tests import quick_fakeredis, surroundings

surroundings.settle()
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
quick_fakeredis.install()
