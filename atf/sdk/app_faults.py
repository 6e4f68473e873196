"""Finds why a user's app can't be loaded where Python's own words do not say it: a module of the same name, or patched threads."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

_NAMED: Final = re.compile(r"module '(?P<name>[\w.]+)' has no attribute")
_PATCHED: Final = ("socket", "threading", "thread", "select", "os")


def hidden(module: str) -> str:
    """A sentence where another module of this name was loaded than the one in the current directory; empty: it is that one."""
    top = module.partition(".")[0]
    loaded: Any = sys.modules.get(top)
    here = next((each for each in (f"{top}.py", f"{top}/__init__.py") if os.path.isfile(each)), None)  # noqa: PTH113  any text: Path fails on some
    file = getattr(loaded, "__file__", None)
    if loaded is None or here is None or (file is not None and Path(file).resolve() == Path(here).resolve()):
        return ""
    whose = "Python's own module" if top in sys.stdlib_module_names else "another module"
    return f"{here} was not loaded, but {whose} {top!r} ({file or 'built in'}); give yours another name"


def hidden_behind(error: BaseException) -> str:
    """The same for the module that an import error or a missing attribute tells of."""
    name = error.name if isinstance(error, ImportError) else None
    if isinstance(error, AttributeError) and (match := _NAMED.match(str(error))):
        name = match["name"]
    return hidden(name) if name else ""


def patched_by() -> str:
    """What has replaced Python's sockets and threads in this process, such as "gevent (socket, threading)"; empty: nothing has."""
    gevent: Any = sys.modules.get("gevent.monkey")
    eventlet: Any = sys.modules.get("eventlet.patcher")
    if gevent is not None and (names := [each for each in _PATCHED if gevent.is_module_patched(each)]):
        return f"gevent ({', '.join(names)})"
    if eventlet is not None and (names := [each for each in _PATCHED if eventlet.is_monkey_patched(each)]):
        return f"eventlet ({', '.join(names)})"
    return ""
