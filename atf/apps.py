"""The lambdas behind MODULE:APP words, for commands that import a user's code."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atf.app import App
from atf.app_faults import hidden, hidden_behind, patched_by
from atf.errors import ConfigError
from atf.lambdas import Lambda
from atf.streams import go_on_without_threads


def load_lambdas(apps: Sequence[str]) -> dict[str, Lambda[..., Any]]:
    """The lambdas of apps, by name.

    Raises:
        ConfigError: an app is not there, can't be imported, or two define the same lambda; the message says which and where.
    """
    found: dict[str, Lambda[..., Any]] = {}
    for app in dict.fromkeys(apps):
        for name, each in _load(app).lambdas.items():
            if name in found:
                raise ConfigError(f"lambda {name} is defined by two of the apps {', '.join(apps)}")
            found[name] = each
    return dict(sorted(found.items()))


def load_apps(apps: Sequence[str]) -> list[App]:
    """The apps, in the order given.

    Raises:
        ConfigError: as for `load_lambdas`.
    """
    return list(dict.fromkeys(_load(app) for app in apps))


def look_for(apps: Sequence[str]) -> None:
    """Looks whether the apps' modules are there, as far as that can be told without running code of theirs.

    Raises:
        ConfigError: one is not; the message says which.
    """
    for app in apps:
        top = _split(app)[0].partition(".")[0]  # to look further in, one would have to import that
        here = str(Path.cwd())
        sys.path.append(here)
        try:
            found = importlib.util.find_spec(top) is not None
        except Exception:  # noqa: BLE001  odd names and finders: whoever imports it has the better sentence
            found = True
        finally:
            sys.path.pop()
        if not found:
            raise ConfigError(f"app {app}: ModuleNotFoundError: No module named {top!r}")


def _split(name: str) -> tuple[str, str]:
    module, colon, variable = name.partition(":")
    if not colon or not module or not variable:
        raise ConfigError(f"app {name!r}: write MODULE:APP, such as shop:app")
    return module, variable


def _load(name: str) -> App:
    module, variable = _split(name)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a user's controller.py must not stand in for another module
    try:
        found = getattr(importlib.import_module(module), variable, None)
    except (Exception, SystemExit) as error:  # a script without `if __name__ == "__main__"` may exit
        why = hidden(module) or hidden_behind(error)
        raise ConfigError(
            f"app {name}: {where(error)}{type(error).__name__}: {error}{f'. {why}' if why else ''}"
        ) from error
    if patched := patched_by():
        go_on_without_threads()  # else not even this can be said: the locks of threads that run are patched, too
        raise ConfigError(
            f"app {name}: it has Python's modules patched by {patched}, and executors need them as they are: leave the patch out of what"
            " the app imports"
        )
    if not isinstance(found, App):
        why = hidden(module)
        raise ConfigError(f"app {name}: {module} has no atf.App named {variable!r}{f': {why}' if why else ''}")
    return found


def where(error: BaseException) -> str:
    """The file and line of the user's code that raised, as the beginning of a sentence; empty: it is not known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename} line {error.lineno}: "
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "importlib" not in each.filename]
    own = frames[1:]  # without this module
    return f"{own[-1].filename} line {own[-1].lineno}: " if own else ""
