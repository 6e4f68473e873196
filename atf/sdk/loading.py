"""Imports the lambdas behind MODULE:APP words: the one way in which a user's code is imported, by executors and by commands.

Never call `load_lambdas` while an event loop runs: what is imported may run one of its own (`asyncio.run`). Otherwise code would pass in one
place and fail in another.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from atf.errors import ConfigError, message_of
from atf.process.streams import go_on_without_threads
from atf.task import clip

from .app import App
from .app_faults import hidden, hidden_behind, patched_by
from .lambdas import Lambda

_INSTALLED: Final = (
    "<frozen ",
    *{sysconfig.get_path(each) + os.sep for each in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(__file__).parents[1]) + os.sep,
)
"""Where code is not the user's: in Python itself, in what they have installed, and in this package, wherever it lies."""
_DEEPEST: Final = 16
MAX_SAID_BYTES: Final = 1 << 10
"""Of the text of an exception; a log, a terminal and `explain` are to show it."""


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
    if not colon or not variable or not all(module.split(".")) or "/" in module:
        raise ConfigError(f"app {name!r}: write MODULE:APP, such as shop:app")
    return module, variable


def _load(name: str) -> App:
    module, variable = _split(name)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a user's controller.py must not stand in for another module
    try:
        found = importlib.import_module(module)
        there = getattr(found, variable, None)
        app = there if isinstance(there, App) else None  # both may run code of the module
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a script without `if __name__ == "__main__"` may exit
        why = hidden(module) or hidden_behind(error)
        at = where(error) or _file_of(module)
        raise ConfigError(f"app {name}: {at}{in_words(error)}{f'. {why}' if why else ''}") from error
    if patched := patched_by():
        go_on_without_threads()  # else not even this can be said: the locks of threads that run are patched, too
        raise ConfigError(
            f"app {name}: it has Python's modules patched by {patched}, and executors need them as they are: leave the patch out of what"
            " the app imports"
        )
    if app is None:
        why = hidden(module)
        instead = f": {why}" if why else _instead(found, there)
        raise ConfigError(f"app {name}: {module} has no atf.App named {variable!r}{instead}")
    return app


def _instead(module: ModuleType, found: object) -> str:
    """What stands there in place of an app, and which apps there are."""
    kind = type(found).__name__
    what = "" if found is None else f": that is {'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"
    apps = [name for name, each in vars(module).items() if isinstance(each, App)]
    return f"{what}. Did you mean {' or '.join(f'{module.__name__}:{each}' for each in apps[:3])}?" if apps else what


def in_words(error: BaseException) -> str:
    """Type and text of an exception of user code, and of the one that it was raised from, within bounds."""
    first = error
    for _ in range(_DEEPEST):  # one may lead back to itself
        cause = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        first = first if cause is None else cause
    texts = [f"{type(each).__name__}: {clip(message_of(each), MAX_SAID_BYTES)}" for each in (error, first)]
    return texts[0] if first is error else f"{texts[0]} (from {texts[1]})"


def where(error: BaseException) -> str:
    """The file and line of the user's code at fault, as the beginning of a sentence; empty: it is not known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename} line {error.lineno}: " if error.lineno else f"{error.filename}: "
    own = traceback.extract_tb(error.__traceback__)[1:]  # without this module
    theirs = [each for each in own if not each.filename.startswith(_INSTALLED)]
    at = (theirs or [each for each in own if "importlib" not in each.filename])[-1:]
    return f"{at[0].filename} line {at[0].lineno}: " if at else ""


def _file_of(module: str) -> str:
    """The file that could not be read, in the same form."""
    with contextlib.suppress(Exception):
        found = importlib.util.find_spec(module)
        if found is not None and found.origin:
            return f"{found.origin}: "
    return ""
