"""Decides which programs the built-in lambda `atf/command` may run: an allow-list, closed by default. Pure; it looks at no file.

    /usr/bin/convert           this program, named in a task by exactly this path
    resize=/opt/photos/resize  this program, named in a task as `resize`

An entry is a file, not what it does: whoever lists a shell or an interpreter allows everything that its arguments can say.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final, Self

from atf.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class AllowedPrograms:
    """An allow-list as it was read."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = dict(paths)

    def __bool__(self) -> bool:
        return bool(self._paths)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads entries with commas between them.

        Raises:
            ConfigError: one is none, or a name is given twice; the message names it.
        """
        paths: dict[str, str] = {}
        for word in (each.strip() for each in text.split(",")):
            if not word:
                continue
            name, path = _entry(word)
            if paths.get(name, path) != path:
                raise ConfigError(f"command_allow: {name!r} is given twice, for {paths[name]} and {path}")
            paths[name] = path
        return cls(paths)

    def path_of(self, program: str) -> str | None:
        """The file that a task's program stands for; None: it is not allowed."""
        return self._paths.get(program)


def _entry(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if not equals or word.startswith("/"):  # a path may have an equals sign
        name = path = word
    elif not _NAME.fullmatch(name):
        raise ConfigError(f"command_allow: name {name[:80]!r}: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path or not path.isprintable():
        raise ConfigError(
            f"command_allow: {word[:200]!r}: name a program by its absolute path, without . and .., as in /usr/bin/convert or"
            " resize=/opt/photos/resize"
        )
    return name, path
