"""Reads the file atf.toml, and refuses names that nothing reads. A misspelt setting would otherwise be ignored in silence."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from atf.errors import ConfigError
from atf.visible import one_line

_MAX_BYTES: Final = 1 << 20
Document = dict[str, Any]
Tables = Mapping[str, frozenset[str]]
"""The names that may stand in each table; "" is the top level."""


def read(path: Path, tables: Tables) -> Document:
    """The file's settings; none where there is no file.

    Raises:
        ConfigError: it is no TOML, or has a name that nothing reads.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)  # no more: a device has no end
        if len(text) > _MAX_BYTES:
            raise ConfigError(f"{path}: over {_MAX_BYTES} bytes; is it an atf.toml?")
        document = tomllib.loads(text.decode())
    except FileNotFoundError:
        return {}
    except RecursionError:
        raise ConfigError(f"{path}: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    for name, value in document.items():
        if not isinstance(value, dict):
            _check(path, name, "", tables)
        elif name in tables:
            for each in value:
                _check(path, each, name, tables)
        else:
            raise ConfigError(f"{path}: no role reads a table [{_shown(name)}]{_hint(name, filter(None, tables))}")
    return document


def _check(path: Path, name: str, table: str, tables: Tables) -> None:
    if name in tables[table]:
        return
    place = f"[{table}] " if table else ""
    homes = [f"[{each}]" for each, names in tables.items() if each and name in names]
    if homes:
        raise ConfigError(f"{path}: {place}{name}: this is no setting of {table}; put it into {' or '.join(homes)}")
    raise ConfigError(f"{path}: {place}{_shown(name)}: there is no such setting{_hint(name, tables[table])}")


def _hint(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower().replace("-", "_"), known, n=1)
    return f"; did you mean {near[0]}?" if near else "; atf ROLE --help lists those that a role has"


def _shown(name: str) -> str:
    return one_line(name[:80])
