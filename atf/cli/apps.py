"""The lambdas behind MODULE:APP words, for commands that import a user's code."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from atf.app import App
from atf.errors import ConfigError
from atf.rpc import frontend_pb2 as f


def load_specs(apps: Sequence[str]) -> list[f.LambdaSpec]:
    """What the lambdas of apps are registered as, by name.

    Raises:
        ConfigError: an app is not there, can't be imported, or two define the same lambda; the message says which and where.
    """
    found: dict[str, f.LambdaSpec] = {}
    for name in dict.fromkeys(apps):
        for each in _load(name).lambdas.values():
            if each.name in found:
                raise ConfigError(f"lambda {each.name} is defined by two of the apps {', '.join(apps)}")
            found[each.name] = each.spec()
    return [spec for _, spec in sorted(found.items())]


def _load(name: str) -> App:
    module, colon, variable = name.partition(":")
    if not colon or not module or not variable:
        raise ConfigError(f"app {name!r}: write MODULE:APP, such as shop:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a user's controller.py must not stand in for another module
    try:
        found = getattr(importlib.import_module(module), variable, None)
    except Exception as error:
        raise ConfigError(f"app {name}: {_where(error)}{type(error).__name__}: {error}") from error
    if not isinstance(found, App):
        raise ConfigError(f"app {name}: {module} has no atf.App named {variable!r}")
    return found


def _where(error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename} line {error.lineno}: "
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "importlib" not in each.filename]
    own = frames[1:]  # without this module
    return f"{own[-1].filename} line {own[-1].lineno}: " if own else ""
