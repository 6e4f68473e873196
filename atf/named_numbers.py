"""Values that travel as numbers and are shown by their names."""

from __future__ import annotations

import enum


class NamedNumber(enum.IntEnum):
    """A number that `print`, f-strings, `str.format` and `%s` show by its name: "SUCCESS", not "5"."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)
