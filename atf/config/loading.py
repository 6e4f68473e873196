"""Reads settings.

A setting comes from, in this order: the command-line flag > the environment variable ATF_<NAME> > the file atf.toml >
a file that systemd has put into $CREDENTIALS_DIRECTORY > the default. In atf.toml a setting stands at the top level or in a table named after its
role; a name that nothing reads is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

from atf.errors import ConfigError

from . import settings_file
from .secret_files import credential, read_secret
from .settings import (
    ControllerSettings,
    ExecutorSettings,
    FrontendSettings,
    HscSettings,
    LogSettings,
    SecuritySettings,
    ServerSettings,
    StoreConsumerSettings,
    StoreSettings,
    Timing,
    UiSettings,
    WorkerHostSettings,
)

S = TypeVar("S")

OF_COMMANDS: Final = frozenset({"store_bin", "data_dir", "maxmemory_mib", "free_ports", "compact"})
"""Settings of commands that no role has; the commands' own modules say what they mean."""
_OF_QUESTIONS: Final = frozenset({"prometheus"})
"""Settings of commands that only ask."""


def _names(*classes: type[Any]) -> frozenset[str]:
    return frozenset(each.name for cls in classes for each in fields(cls))


_SHARED: Final = (StoreSettings, Timing, LogSettings, SecuritySettings)

_ROLES: Final[dict[str, tuple[type[Any], ...]]] = {
    "frontend": (FrontendSettings, *_SHARED),
    "store_consumer": (StoreConsumerSettings, *_SHARED),
    "hsc": (HscSettings, *_SHARED),
    "controller": (ControllerSettings, *_SHARED),
    "executor": (ExecutorSettings, Timing, LogSettings),
    "ui": (UiSettings, LogSettings, SecuritySettings),
    "server": (ServerSettings, *_SHARED),
    "worker": (WorkerHostSettings, *_SHARED),
}

TABLES: Final[settings_file.Tables] = {
    "": _names(*(cls for classes in _ROLES.values() for cls in classes)) | OF_COMMANDS | _OF_QUESTIONS,
    **{role: _names(*classes) for role, classes in _ROLES.items()},
    "up": frozenset({"redis_url", "durability", "partitions", "executors", "threads", "http_allow", "command_allow"})
    | OF_COMMANDS,
}
"""What may stand in atf.toml, and where."""

_BOOLEANS: Final = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)


def load(
    settings: type[S],
    flags: Mapping[str, object] | None = None,
    *,
    table: str = "",
    env: Mapping[str, str] | None = None,
    path: Path | None = None,
) -> S:
    """Reads one settings class.

    Args:
        settings: a dataclass of this module.
        flags: command-line values by field name; None stands for "not given".
        table: the role's table in atf.toml.
        env: the environment; default the process's own.
        path: the file; default ATF_CONFIG or ./atf.toml.

    Raises:
        ConfigError: a value is malformed or breaks a rule; the message says where it came from.
    """
    env = os.environ if env is None else env
    document = settings_file.read(path or Path(env.get("ATF_CONFIG", "atf.toml")), TABLES)
    section = document.get(table, {}) if table else {}
    section = section if isinstance(section, dict) else {}  # a setting may have a role's name: frontend = "host:port"
    types = get_type_hints(settings)
    values: dict[str, Any] = {}
    for each in fields(settings):  # type: ignore[arg-type]
        name, variable = each.name, f"ATF_{each.name.upper()}"
        given = (flags or {}).get(name)
        if given is not None:
            values[name] = _convert(given, types[name], f"--{name.replace('_', '-')}")
        elif variable in env:
            values[name] = _convert(env[variable], types[name], variable)
        elif name in section:
            values[name] = _convert(section[name], types[name], f"atf.toml [{table}] {name}")
        elif name in document and not isinstance(document[name], dict):  # that is the table of the role of this name
            values[name] = _convert(document[name], types[name], f"atf.toml {name}")
        elif (path_of_credential := credential(name, env)) is not None:
            values[name] = path_of_credential
    if path_of_url := values.pop("redis_url_file", ""):
        values.setdefault("redis_url", read_secret(path_of_url, "redis_url_file"))
    return settings(**values)


def _convert(value: object, kind: type, source: str) -> object:
    text = str(value).strip()
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        if isinstance(value, list | dict) or "\0" in text:
            raise ValueError
        found = kind(text)
        if kind is int and abs(found) >= 1 << 63:
            raise ValueError
        return found
    except (KeyError, ValueError):
        expected = {bool: "true or false", int: "a whole number", float: "a number", str: "one line of text"}[kind]
        raise ConfigError(f"{source} = {text[:80]!r}: give {expected}") from None
